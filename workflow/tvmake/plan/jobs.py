"""The jobs of a plan: their inputs, outputs and parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tvmake.plan.requests import Requests
from tvmake.stages.budgets import Round
from tvmake.stages.context import JobContext
from tvmake.stages.descriptor import Kind, Output, Stage
from tvmake.stages.registry import goal_stages, stages
from tvmake.transform.options import CANDIDATES


@dataclass(frozen=True, order=True)
class Variant:
    """model × precision × target."""

    model: str
    precision: str
    target: str

    def __str__(self) -> str:
        return f"{self.model}/{self.precision}/{self.target}"


@dataclass(frozen=True)
class Job:
    """One job of a stage. The workflow's rules give it the same inputs, outputs and parameters."""

    stage: str
    rule: str
    wildcards: Mapping[str, str]
    options: str
    """The request as canonical JSON; empty for a stage that takes none."""
    fingerprint: str
    """Fingerprint of the code and library versions that the job uses."""
    inputs: tuple[str, ...]
    """All files and directories that it reads, sources included."""
    sources: tuple[str, ...]
    """Inputs that no stage makes."""
    untimed: tuple[str, ...]
    """Inputs that rerun no job by themselves (:attr:`tvmake.stages.descriptor.Input.has_no_time`)."""
    outputs: tuple[str, ...]
    log: str
    """The log of its command's output."""
    parameters: Mapping[str, str | int] = field(default_factory=dict)
    """Values other than the options, by name."""


class Jobs:
    """The jobs of a plan. Each is created once, unless a file that determines its inputs changes."""

    def __init__(self, run: JobContext, requests: Requests):
        self._run = run
        self._requests = requests
        self._cache: dict[tuple[object, ...], Job] = {}
        self._of_variants: dict[tuple[object, ...], tuple[Job, ...]] = {}
        self._kinds: dict[tuple[object, ...], tuple[tuple[Kind, JobContext], ...]] = {}

    def of_variant(self, variant: Variant) -> tuple[Job, ...]:
        """The jobs that a variant's goals depend on, in the order of the data flow, as far as existing budgets determine them.

        This includes jobs shared with other variants: imports, transforms, budgets, searches. A budget's inputs from other
        variants are made by the jobs of those.
        """
        names = goal_stages()
        versions = self._versions(variant)
        key = (variant, *versions)
        if key not in self._of_variants:
            self._of_variants[key] = tuple(
                self._job(kind, job, versions if kind.stage.follows_budgets else ())
                for kind, job in self._kinds_of(variant)
                if kind.stage.name in names
            )
        return self._of_variants[key]

    def outputs_of(self, variant: Variant, stage: Stage | None = None) -> Iterator[tuple[Output, str]]:
        """Outputs of a stage, or of all stages, for a variant, with paths; also those that goals do not depend on."""
        for kind, job in self._kinds_of(variant):
            if stage in (None, kind.stage):
                for output in kind.outputs:
                    yield output, job.file(output.artifact)

    def written_files(self, variants: Iterable[Variant]) -> Iterator[str]:
        """Outputs and logs of the jobs of variants, and of those of the run, without creating the jobs."""
        names, seen = goal_stages(), set()
        for variant in variants:
            for kind, job in self._kinds_of(variant):
                key = (kind.stage.name, *job.wildcards.values())
                if kind.stage.name in names and key not in seen:
                    seen.add(key)
                    yield from _written_files(kind, job)
        for kind in _kinds_of_run():
            yield from _written_files(kind, self._run.at({}))

    def of_run(self) -> tuple[Job, ...]:
        """The jobs that exist once in a run."""
        return tuple(self._job(kind, self._run.at({})) for kind in _kinds_of_run())

    def _versions(self, variant: Variant) -> tuple[int | None, ...]:
        """The versions of the budgets that determine a variant's jobs."""
        return tuple(planned.version if planned else None for planned in self._run.at(variant).planned_rounds)

    def _kinds_of(self, variant: Variant) -> tuple[tuple[Kind, JobContext], ...]:
        """The kinds of jobs of a variant, with the jobs' contexts."""
        key = (variant, *self._versions(variant))
        if key not in self._kinds:
            self._kinds[key] = tuple(self._list_kinds(self._run.at(variant)))
        return self._kinds[key]

    def _list_kinds(self, variant: JobContext) -> Iterator[tuple[Kind, JobContext]]:
        rounds = variant.planned_rounds
        for stage in stages().values():
            for kind in stage.kinds:
                for more in self._free_wildcards(kind, variant, rounds) if kind.wildcards else ():
                    full = variant.with_wildcards(**more) if more else variant
                    if stage.exists(full):
                        yield kind, full.with_only(kind.wildcards)

    def _free_wildcards(
        self, kind: Kind, variant: JobContext, rounds: Sequence[Round | None]
    ) -> Iterator[Mapping[str, str]]:
        """Values of wildcards that a variant does not determine: layouts, rounds and the workloads of a round."""
        if "layout" in kind.wildcards:
            yield from ({"layout": layout} for layout in CANDIDATES)
        elif "workload" in kind.wildcards:
            for number, planned in enumerate(rounds, 1):
                for workload in planned.workloads(f"{variant.model}/{variant.precision}") if planned else ():
                    yield {"number": str(number), "workload": workload}
        elif "number" in kind.wildcards:
            yield from ({"number": str(number)} for number in range(1, len(rounds) + 1))
        else:
            yield {}

    def _job(self, kind: Kind, context: JobContext, versions: Sequence[int | None] = ()) -> Job:
        """Return a job. ``versions`` are those of the budgets that determine it."""
        key = (kind.stage.name, *context.wildcards.values(), *versions)
        if key not in self._cache:
            self._cache[key] = self._create(kind, context)
        return self._cache[key]

    def _create(self, kind: Kind, context: JobContext) -> Job:
        stage = kind.stage
        read = [(entry, tuple(entry.paths(context))) for entry in stage.inputs]
        return Job(
            stage=stage.name,
            rule=rule_of(kind),
            wildcards=context.wildcards,
            options=self._requests.options(stage.name, context) if stage.request else "",
            fingerprint=self._requests.fingerprint(stage.name, context),
            inputs=tuple(path for _, paths in read for path in paths),
            sources=tuple(path for entry, paths in read if entry.is_source for path in paths),
            untimed=tuple(path for entry, paths in read if entry.has_no_time for path in paths),
            outputs=_outputs(kind, context),
            log=_log(kind, context),
            parameters={parameter.name: parameter.value(context) for parameter in stage.parameters},
        )


def _kinds_of_run() -> Iterator[Kind]:
    """The kinds of jobs that exist once in a run."""
    return (kind for stage in stages().values() for kind in stage.kinds if not kind.wildcards)


def _written_files(kind: Kind, context: JobContext) -> tuple[str, ...]:
    return (*_outputs(kind, context), _log(kind, context))


def _outputs(kind: Kind, context: JobContext) -> tuple[str, ...]:
    return tuple(context.file(output.artifact) for output in kind.outputs)


def _log(kind: Kind, context: JobContext) -> str:
    return context.log(kind.logs[0].path)


def rule_of(kind: Kind) -> str:
    """The workflow's rule for a kind of job."""
    return kind.stage.rule_names[kind.stage.kinds.index(kind)]
