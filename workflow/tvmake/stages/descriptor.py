"""What is known of a stage. Commands, plan, files, resources, cache keys and locks are derived from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from tvmake.cache.recipe import Recipe

if TYPE_CHECKING:
    from pydantic import BaseModel

    from tvmake.codegen.options import BuildOptions
    from tvmake.config.benchmark import BenchmarkOptions
    from tvmake.config.export import ExportOptions
    from tvmake.config.root import Config, ModelConfig
    from tvmake.config.tuning import TuningOptions
    from tvmake.config.validation import Goals, ValidationOptions
    from tvmake.frontend.options import ImportOptions
    from tvmake.quantize.precision import PrecisionConfig
    from tvmake.transform.options import Layout, TransformOptions, UserPass

WILDCARDS = ("model", "precision", "target", "number", "layout", "workload")
"""What tells the jobs of a stage apart."""


class JobContext(Protocol):
    """One job of a stage, and what the config holds for it. The plan implements it.

    Wildcards that the stage does not have are empty. Options are those of the job's model, over the general ones.
    """

    @property
    def model(self) -> str: ...
    @property
    def precision(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def number(self) -> str:
        """The round of tuning, from 1."""
        ...

    @property
    def layout(self) -> str:
        """The data layout of a candidate."""
        ...

    @property
    def workload(self) -> str: ...

    @property
    def config(self) -> Config: ...
    @property
    def model_config(self) -> ModelConfig: ...
    @property
    def import_options(self) -> ImportOptions: ...
    @property
    def precision_config(self) -> PrecisionConfig: ...
    @property
    def transform(self) -> TransformOptions: ...
    @property
    def build(self) -> BuildOptions: ...
    @property
    def export(self) -> ExportOptions: ...
    @property
    def validation(self) -> ValidationOptions: ...
    @property
    def goals(self) -> Goals:
        """What the variant must reach, defaults applied."""
        ...

    @property
    def quantized_goals(self) -> Goals | None:
        """The same where the source turns out to be quantised; None where they are no others."""
        ...

    @property
    def tuning(self) -> TuningOptions: ...
    @property
    def benchmark(self) -> BenchmarkOptions: ...

    @property
    def target_fields(self) -> dict[str, Any]:
        """``target_name``, ``target`` and ``cpu``: what code for the target depends on."""
        ...

    @property
    def device_fields(self) -> dict[str, Any]:
        """``device_name`` and ``device``: where the target's packages run."""
        ...

    @property
    def device_name(self) -> str | None:
        """The target's device; None for a target without one."""
        ...

    @property
    def is_tuned(self) -> bool: ...
    @property
    def chooses_layout(self) -> bool:
        """Whether the variant's data layout is chosen by measuring."""
        ...

    @property
    def chooses_precision(self) -> bool:
        """Whether the precision of each of the variant's layers is chosen by measuring."""
        ...

    @property
    def layout_choice(self) -> Layout | Literal["auto"]:
        """The data layout that the variant asks for; ``auto`` where it is chosen by measuring."""
        ...

    @property
    def rounds(self) -> int:
        """The number of rounds in which the target's kernels are tuned; 0 where a lock gives the records."""
        ...

    @property
    def variants(self) -> Sequence[JobContext]:
        """All variants, or those of the job's target if it has one."""
        ...

    @property
    def trials(self) -> int:
        """Candidates that the budget gives the job's workload."""
        ...

    @property
    def kernel_name(self) -> str:
        """What the budget calls the job's workload."""
        ...

    @property
    def model_files(self) -> list[str]: ...
    @property
    def dataset_files(self) -> list[str]: ...
    @property
    def lock_files(self) -> list[str]:
        """The lock that gives the target's records, if there is one."""
        ...

    def user_passes(self, points: Sequence[str]) -> list[UserPass]:
        """The model's user passes at these points of the pipeline."""
        ...

    def pass_files(self, points: Sequence[str]) -> list[str]:
        """The Python files that those passes come from."""
        ...

    def file(self, artifact: str, **wildcards: str | int) -> str:
        """The path of an artifact with the job's wildcards."""
        ...

    def network_file(self, part: str) -> str:
        """``module.json``, ``module.params`` or ``signature.json`` of the network that the variant is built from."""
        ...

    def receipts(self, number: int, user: str | None = None) -> list[str]:
        """The receipts of a round of tuning, or of the kernels of one variant (``model/precision``) in it."""
        ...


Files = Callable[[JobContext], Sequence[str]]


@dataclass(frozen=True)
class Input:
    """Something that a stage reads."""

    artifacts: str | tuple[str, ...] = ()
    """What it is: an artifact, or several of which a job reads one or the other; none for a source."""
    parameter: str = ""
    """The function's parameter, which is an argument of the command; empty for what the request names, or what only has
    to be there."""
    files: Files | None = None
    """The paths that a job reads; by default the artifact's."""
    help: str = ""
    """Makes the parameter an option of the command, with this help."""
    is_many: bool = False
    is_optional: bool = False
    is_directory: bool = False
    is_of_earlier_round: bool = False
    """Whether a later stage made it before, so that it does not order the stages."""

    @property
    def is_source(self) -> bool:
        """Whether it is given by the user, and not made by a stage."""
        return not self.artifacts

    @property
    def names(self) -> tuple[str, ...]:
        """The artifacts."""
        return (self.artifacts,) if isinstance(self.artifacts, str) else self.artifacts

    def paths(self, job: JobContext) -> Sequence[str]:
        """The paths that a job reads."""
        return self.files(job) if self.files else [job.file(self.names[0])]


@dataclass(frozen=True)
class Output:
    """A file or directory that a stage writes: an artifact."""

    artifact: str
    """Its name among all stages: the file's, after a word and a slash where several are called alike."""
    directory: str
    """Where it lies, with ``{results}``, ``{model}`` … left in (see :mod:`tvmake.artifact.paths`)."""
    parameter: str = ""
    """The function's parameter, which is an option of the command."""
    help: str = ""
    is_directory: bool = False
    members: tuple[str, ...] = ()
    """Artifacts inside a directory."""
    is_locked: bool = True
    """Whether a lock compares it, if the stage is hermetic."""
    has_parts: bool = False
    """Whether a lock records digests of its parts too, because their names tell where two versions differ."""

    @cached_property
    def path(self) -> str:
        """The path, with its wildcards left in."""
        return f"{self.directory}/{file_name(self.artifact)}"

    @cached_property
    def wildcards(self) -> tuple[str, ...]:
        """The wildcards of the path."""
        return wildcards_of(self.path)


def file_name(artifact: str) -> str:
    """The name of an artifact's file."""
    return artifact.rpartition("/")[2]


@dataclass(frozen=True)
class Log:
    """A log of a stage's jobs."""

    path: str
    parameter: str = ""
    """The function's parameter, for a log that the stage writes itself."""
    help: str = ""


@dataclass(frozen=True)
class Parameter:
    """A value besides files and the request that a command takes."""

    name: str
    type: type
    help: str
    value: Callable[[JobContext], str | int]
    """The value for a job."""
    minimum: int | None = None


@dataclass(frozen=True)
class Stage:
    """A stage: its function, and everything that is known of it.

    The function takes, by name, the parameters of inputs and outputs (paths; lists of paths where there are many), of
    logs, ``parameters``, and ``request`` if there is a request model. Each output's wildcards tell for which jobs there
    is one; outputs with different wildcards and the same parameter are those of different jobs.
    """

    name: str
    summary: str
    """One sentence, the command's help."""
    function: Callable[..., Any]
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    logs: tuple[Log, ...]
    request_model: type[BaseModel] | None = None
    """The type of the function's ``request``, which the command reads from ``--options``."""
    request: Callable[[Any], BaseModel] | None = None
    """Makes the request of a job from the config (takes a :class:`JobContext`). It holds exactly what the stage reads."""
    exists: Callable[[JobContext], bool] = lambda _: True
    """Whether a variant has such a job; the context has the job's wildcards and the variant's."""
    parameters: tuple[Parameter, ...] = ()
    takes_lock: bool = False
    """Whether the function takes ``frozen``, a lock's path, and ``variant``: what to take from a lock."""
    subject: Callable[[Mapping[str, Any]], object] | None = None
    """What a run is called after, given the function's arguments; by default the first input."""
    report: Callable[[Any], Iterable[str]] = lambda _: ()
    """Lines to print of what the function returned."""
    reads: Callable[[Mapping[str, Any]], Iterable[Path]] = lambda _: ()
    """Results that it reads and no parameter names, given the function's arguments."""
    code: Callable[[Any], Sequence[str]] | None = None
    """Modules that a request has loaded by name, as dotted names: code of the stage too."""
    rules: tuple[str, ...] = ()
    """The workflow's rules, if they are not called as the stage."""

    is_goal: bool = False
    """Whether its outputs are what a run is for: a variant, or the run, is not made without them."""
    is_hermetic: bool = False
    """Whether the same inputs give the same bytes (of stages that measure: with records from a lock)."""
    recipe: Recipe | None = None
    """How the cache's key is made; None for a stage that is not cached."""

    memory_mb: int = 1000
    """Memory besides the model's weights, in MB; 300 of them for Snakemake, which runs with the job on a cluster."""
    minutes: int = 20
    """Time limit besides what grows with the model, the trials and the device's own limits."""
    more_seconds: Callable[[JobContext], float] = lambda _: 0
    """What a job's options add to its time limit."""
    holds_weights: bool = True
    """Whether memory and time grow with the model's weights."""
    is_on_device: bool = False
    is_alone: bool = False
    """Whether it needs this machine for itself when the device is this machine."""

    server: str = "compiler"
    """The kind of fork server that its commands are forked from: ``compiler``, ``tuner``, or ``model``, which is the one for
    the model's format (see :mod:`tvmake.stages.preload`)."""
    preload: tuple[str, ...] = ()
    """Modules that such a process loads beforehand."""

    @property
    def module(self) -> str:
        """The module that the function stands in."""
        return self.function.__module__

    @property
    def rule_names(self) -> tuple[str, ...]:
        """The workflow's rules for this stage."""
        return self.rules or (self.name,)

    @property
    def is_cached(self) -> bool:
        """Whether the cache may have its results."""
        return self.recipe is not None

    @property
    def is_searching(self) -> bool:
        """Whether its jobs write a log of trials."""
        return any(log.parameter for log in self.logs)

    @cached_property
    def follows_budgets(self) -> bool:
        """Whether budgets say which of its jobs there are, or what they read."""
        makes_workloads = any("workload" in kind.wildcards for kind in self.kinds)
        return makes_workloads or any("{workload}.json" in entry.names for entry in self.inputs)

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """The stage's jobs, sorted by which wildcards they have."""
        found: dict[tuple[str, ...], list[Output]] = {}
        for output in self.outputs:
            found.setdefault(output.wildcards, []).append(output)
        return tuple(
            Kind(
                self, wildcards, tuple(outputs), tuple(log for log in self.logs if wildcards_of(log.path) == wildcards)
            )
            for wildcards, outputs in found.items()
        )

    def kind(self, wildcards: Mapping[str, str]) -> Kind:
        """The kind of job that has these wildcards (empty ones do not count)."""
        present = {name for name, value in wildcards.items() if value}
        return max(
            (kind for kind in self.kinds if present.issuperset(kind.wildcards)), key=lambda kind: len(kind.wildcards)
        )

    def roots(self, request: BaseModel | None) -> tuple[str, ...]:
        """The modules that the code for a request begins with."""
        return (self.module, *(self.code(request) if self.code and request is not None else ()))


@dataclass(frozen=True)
class Kind:
    """Jobs of a stage that have the same wildcards."""

    stage: Stage
    wildcards: tuple[str, ...]
    outputs: tuple[Output, ...]
    logs: tuple[Log, ...]


def wildcards_of(path: str) -> tuple[str, ...]:
    """The wildcards of a path's pattern, in order; ``results`` is none."""
    return tuple(name for name in dict.fromkeys(re.findall(r"\{(\w+)\}", path)) if name != "results")
