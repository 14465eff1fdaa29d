"""The fields of the workflow's rules, from the stages' descriptors: inputs, outputs, parameters, resources."""

from collections.abc import Callable, Mapping
from typing import Any

from snakemake.io import ancient, directory, report

from tvmake.engine.environments import conda_file, image
from tvmake.engine.up_to_date.sources import Sources
from tvmake.plan.plan import Plan
from tvmake.plan.resources import JobResources
from tvmake.stages.context import JobContext
from tvmake.stages.descriptor import Input, Parameter, Stage
from tvmake.stages.registry import rules, stages

Function = Callable[..., Any]
"""A function of wildcards and of other arguments that Snakemake passes by name."""


class RulePlan:
    """The fields of rules: each is a mapping to write as ``**plan.inputs("build")``.

    A rule has its stage's name or its own.

    Args:
        checkpoints: Snakemake's checkpoints.
    """

    def __init__(self, plan: Plan, sources: Sources, resources: JobResources, checkpoints: Any):
        self._plan = plan
        self._sources = sources
        self._resources = resources
        self._checkpoints = checkpoints
        self._budgeted: set[tuple[str, int]] = set()
        self._kinds = {**{stage.name: stage.kinds[0] for stage in stages().values()}, **rules()}
        self.conda = conda_file()
        self.image = image()

    def inputs(self, rule: str) -> dict[str, Any]:
        """A rule's inputs, by the descriptor's parameters. ``sources`` are the user's files.

        Snakemake calls the functions for each job.
        """
        stage = self._kinds[rule].stage
        inputs = {entry.name: self._input(entry) for entry in stage.inputs if not entry.is_source}
        if stage.sources:
            inputs["sources"] = lambda wildcards: self._sources.files(self._source_files(stage, wildcards))
        return inputs

    def outputs(self, rule: str, captions: Mapping[str, str] | None = None) -> dict[str, Any]:
        """A rule's outputs, by the descriptor's parameters.

        Args:
            captions: caption files beside the rule, for outputs in Snakemake's report.
        """
        outputs: dict[str, Any] = {}
        for output in self._kinds[rule].outputs:
            path = self._plan.path(output.artifact)
            outputs[output.parameter] = directory(path) if output.is_directory else path
        for name, caption in (captions or {}).items():
            outputs[name] = report(outputs[name], caption=caption, category="Results")
        return outputs

    def logs(self, rule: str) -> dict[str, str]:
        """A rule's logs: ``text`` for its command's output, and those that the stage writes itself."""
        root = self._plan.config.logs
        return {log.parameter or "text": f"{root}/{log.path}" for log in self._kinds[rule].logs}

    def params(self, rule: str) -> dict[str, Any]:
        """A rule's parameters: values for its command, and whatever else reruns its jobs.

        ``options`` is the stage's request, ``code`` a digest of its code and libraries, ``sources`` a digest of the user's files. An
        optional input is an option for the command, such as ``--best=FILE``.
        """
        stage = self._kinds[rule].stage
        params: dict[str, Any] = {"code": lambda wildcards: self._plan.fingerprint(stage.name, wildcards)}
        if stage.request:
            params["options"] = lambda wildcards: self._plan.options(stage.name, wildcards)
        if stage.sources:
            params["sources"] = lambda wildcards: self._sources.digest(self._source_files(stage, wildcards))
        params |= {entry.name: _as_option(entry) for entry in stage.inputs if entry.parameter and entry.is_optional}
        if stage.takes_lock:
            params["frozen"] = self._lock_options
        params |= {parameter.name: self._value(stage, parameter) for parameter in stage.parameters}
        return params

    def resources(self, rule: str) -> dict[str, Function]:
        """Memory, time and device of a rule's jobs."""
        return self._resources.of(self._kinds[rule].stage.name)

    def threads(self, rule: str) -> Function:
        """Cores that a rule's jobs reserve."""
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

    def _lock_options(self, wildcards: Any, input: Any) -> list[str]:  # Snakemake's name
        """Options for the lock that a job's records or choices come from, if any. As a function of the input it reruns nothing."""
        job = self._plan.context(wildcards)
        variant = f"{job.model}/{job.precision}/{job.target}"
        return [word for lock in job.lock_files for word in (f"--frozen={lock}", f"--variant={variant}")]

    def _wait_for_budget(self, entry: Input, job: JobContext) -> None:
        """Let Snakemake first plan the tuning round that determines an input."""
        number = entry.round(job) if entry.round else 0
        if number and (job.target, number) not in self._budgeted:
            self._checkpoints.budget.get(target=job.target, number=number)
            self._budgeted.add((job.target, number))


def _as_option(entry: Input) -> Function:
    """Options for an optional input. As a function of the input they rerun nothing."""
    option = entry.parameter.replace("_", "-")
    return lambda wildcards, input: [f"--{option}={file}" for file in getattr(input, entry.name)]
