"""Each stage's options and code fingerprint, as the workflow passes them to a job."""

from typing import Any

from tvmake.stages import registry
from tvmake.stages.context import JobContext
from tvmake.storage.code_fingerprint import fingerprint
from tvmake.storage.files import canonical_json


class Requests:
    """The options and fingerprints of a plan's jobs, each computed once."""

    def __init__(self, run: JobContext):
        self._run = run
        self._options: dict[tuple[str, ...], str] = {}
        self._roots: dict[tuple[str, ...], tuple[str, ...]] = {}

    def options(self, stage: str, wildcards: Any = None) -> str:
        """Canonical JSON of exactly the values that a stage reads from the config; empty if it reads none.

        Args:
            stage: the stage's name.
            wildcards: the job's (:meth:`tvmake.stages.context.JobContext.at`); others than the stage's are ignored.
        """
        descriptor = registry.stages()[stage]
        if descriptor.request is None:
            return ""
        context, key = self._job(stage, wildcards)
        if key not in self._options:
            request = descriptor.request(context)
            self._options[key] = canonical_json(request.model_dump(mode="json", exclude_defaults=True))
        return self._options[key]

    def fingerprint(self, stage: str, wildcards: Any = None) -> str:
        """Digest of the code and library versions that a stage uses; with wildcards, that one of its jobs uses (code for its
        model's format)."""
        return fingerprint(*self.roots(stage, wildcards))

    def roots(self, stage: str, wildcards: Any = None) -> tuple[str, ...]:
        """The entry modules of a stage's code; with wildcards, also those that one of its jobs loads by name."""
        descriptor = registry.stages()[stage]
        if descriptor.code is None or descriptor.request is None or wildcards is None:
            return descriptor.roots(None)
        context, key = self._job(stage, wildcards)
        if key not in self._roots:
            self._roots[key] = descriptor.roots(descriptor.request(context))
        return self._roots[key]

    def _job(self, stage: str, wildcards: Any) -> tuple[JobContext, tuple[str, ...]]:
        names = registry.stages()[stage].wildcards
        context = self._run.at(wildcards)
        if not names.issuperset(context.wildcards):
            context = context.with_only(names)
        # No request depends on the workload.
        return context, (
            stage,
            context.model,
            context.group,
            context.precision,
            context.target,
            context.number,
            context.layout,
        )
