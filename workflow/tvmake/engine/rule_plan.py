"""A plan as rules name it: what a stage reads, writes, is given and needs, from its descriptor."""

from collections.abc import Callable, Mapping
from typing import Any

from snakemake.io import ancient, directory, report

from tvmake.engine.up_to_date.sources import Sources
from tvmake.plan.plan import Plan
from tvmake.plan.resources import JobResources
from tvmake.stages.context import JobContext
from tvmake.stages.descriptor import Input, Parameter, Stage
from tvmake.stages.registry import rules, stages

Function = Callable[..., Any]
"""A function of wildcards, and of what else Snakemake passes by name."""


class RulePlan:
    """The fields of rules: each is a mapping to write as ``**plan.inputs("build")``.

    A rule is named as its stage, or by its own name.

    Args:
        checkpoints: Snakemake's own.
    """

    def __init__(self, plan: Plan, sources: Sources, resources: JobResources, checkpoints: Any):
        self._plan = plan
        self._sources = sources
        self._resources = resources
        self._checkpoints = checkpoints
        self._budgeted: set[tuple[str, int]] = set()
        self._kinds = {**{stage.name: stage.kinds[0] for stage in stages().values()}, **rules()}

    def inputs(self, rule: str) -> dict[str, Any]:
        """What a rule reads, by the descriptor's parameters; ``sources`` are the user's files.

        Snakemake asks for the files of each job.
        """
        stage = self._kinds[rule].stage
        found = {entry.name: self._input(entry) for entry in stage.inputs if not entry.is_source}
        if stage.sources:
            found["sources"] = lambda wildcards: self._sources.files(self._source_files(stage, wildcards))
        return found

    def outputs(self, rule: str, captions: Mapping[str, str] | None = None) -> dict[str, Any]:
        """What a rule writes, by the descriptor's parameters.

        Args:
            captions: of the outputs that Snakemake's own report shows, as files beside the rule.
        """
        found: dict[str, Any] = {}
        for output in self._kinds[rule].outputs:
            path = self._plan.path(output.artifact)
            found[output.parameter] = directory(path) if output.is_directory else path
        for name, caption in (captions or {}).items():
            found[name] = report(found[name], caption=caption, category="Results")
        return found

    def logs(self, rule: str) -> dict[str, str]:
        """A rule's logs: ``text``, for what its command prints, and those that the stage writes itself."""
        return {log.parameter or "text": log.path for log in self._kinds[rule].logs}

    def params(self, rule: str) -> dict[str, Any]:
        """What a rule's command is given besides files, and what else reruns its jobs.

        ``options`` is the stage's request, ``code`` a digest of its code and libraries, ``sources`` one of the user's files. An
        input that a job may lack is here as an option for the command, such as ``--best=FILE``.
        """
        stage = self._kinds[rule].stage
        found: dict[str, Any] = {"code": lambda wildcards: self._plan.fingerprint(stage.name, wildcards)}
        if stage.request:
            found["options"] = lambda wildcards: self._plan.options(stage.name, wildcards)
        if stage.sources:
            found["sources"] = lambda wildcards: self._sources.digest(self._source_files(stage, wildcards))
        found |= {
            entry.name: _given_as_option(entry) for entry in stage.inputs if entry.parameter and entry.is_optional
        }
        if stage.takes_lock:
            found["frozen"] = self._frozen
        found |= {parameter.name: self._value(stage, parameter) for parameter in stage.parameters}
        return found

    def resources(self, rule: str) -> dict[str, Function]:
        """Memory, time and device of a rule's jobs."""
        return self._resources.of(self._kinds[rule].stage.name)

    def threads(self, rule: str) -> Function:
        """Cores that a rule's jobs keep free of others."""
        return self._resources.threads(self._kinds[rule].stage.name)

    def _input(self, entry: Input) -> Any:
        if entry.files is None and entry.round is None:
            path = self._plan.path(entry.names[0])
            return ancient(path) if entry.has_no_time else path

        def files(wildcards: Any) -> list[Any]:
            job = self._plan.context(wildcards)
            self._wait_for_budget(entry, job)
            paths = entry.paths(job)
            return [ancient(path) for path in paths] if entry.has_no_time else list(paths)

        return files

    def _source_files(self, stage: Stage, wildcards: Any) -> list[str]:
        job = self._plan.context(wildcards)
        return [path for entry in stage.sources for path in entry.paths(job)]

    def _value(self, stage: Stage, parameter: Parameter) -> Function:
        def value(wildcards: Any) -> str | int:
            job = self._plan.context(wildcards)
            for entry in stage.inputs:
                self._wait_for_budget(entry, job)
            return parameter.value(job)

        return value

    def _frozen(self, wildcards: Any, input: Any) -> list[str]:  # Snakemake's name
        """The lock that a job's records or choices come from, if there is one; made from an input, so that it reruns nothing."""
        job = self._plan.context(wildcards)
        variant = f"{job.model}/{job.precision}/{job.target}"
        return [word for lock in job.lock_files for word in (f"--frozen={lock}", f"--variant={variant}")]

    def _wait_for_budget(self, entry: Input, job: JobContext) -> None:
        """Have Snakemake plan the round of tuning first that determines an input."""
        number = entry.round(job) if entry.round else 0
        if number and (job.target, number) not in self._budgeted:
            self._checkpoints.budget.get(target=job.target, number=number)
            self._budgeted.add((job.target, number))


def _given_as_option(entry: Input) -> Function:
    """An input that a job may lack, as an option for the command; made from an input, so that it reruns nothing by itself."""
    option = entry.parameter.replace("_", "-")
    return lambda wildcards, input: [f"--{option}={file}" for file in getattr(input, entry.name)]
