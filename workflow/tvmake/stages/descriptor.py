"""The description of a stage. Commands, plan, files, resources, cache keys and locks are derived from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmake.cache.recipe import Recipe

if TYPE_CHECKING:
    from pydantic import BaseModel

    from tvmake.stages.context import JobContext

Files = Callable[["JobContext"], Sequence[str]]


@dataclass(frozen=True)
class Input:
    """An input of a stage."""

    artifacts: str | tuple[str, ...] = ()
    """An artifact, or several alternatives of which a job reads one; none for a source."""
    parameter: str = ""
    """The function's parameter, which is an argument of the command; empty if the request names the file, or it only
    has to exist."""
    files: Files | None = None
    """The paths that a job reads; the artifact's by default."""
    help: str = ""
    """Help of the command's option. Without it the parameter is an argument."""
    is_many: bool = False
    is_optional: bool = False
    is_directory: bool = False
    is_of_earlier_round: bool = False
    """Whether a later stage made it in an earlier round, so that it does not order the stages."""
    round: Callable[[JobContext], int] | None = None
    """The tuning round whose budget determines the paths; a rule waits for that budget. 0 for none."""
    has_no_time: bool = False
    """Whether a newer file reruns no job by itself: another input or the parameters show its changes."""

    @property
    def is_source(self) -> bool:
        """Whether the user provides it, rather than a stage."""
        return not self.artifacts

    @property
    def names(self) -> tuple[str, ...]:
        """The artifacts."""
        return (self.artifacts,) if isinstance(self.artifacts, str) else self.artifacts

    @property
    def name(self) -> str:
        """Its name in rules. Sources share one name."""
        return self.parameter or ("sources" if self.is_source else Path(self.names[0]).stem)

    def paths(self, job: JobContext) -> Sequence[str]:
        """The paths that a job reads."""
        return self.files(job) if self.files else [job.file(self.names[0])]


LOCK = Input(files=lambda job: job.lock_files)
"""The lock with a target's records or choices. The function takes its path as ``frozen`` and the variant in it as ``variant``."""


def network_input(file: str, parameter: str) -> Input:
    """A file of the network that a variant builds: after the transforms, the choice of layout, or that of precisions."""
    transformed = "transformed/signature.json" if file == "signature.json" else file
    return Input((transformed, f"chosen/{file}", f"assigned/{file}"), parameter, lambda job: [job.network_file(file)])


@dataclass(frozen=True)
class Output:
    """An artifact: a file or directory that a stage writes."""

    artifact: str
    """Unique name: the file's name, with a prefix and a slash if several files have this name."""
    directory: str
    """Its directory, with placeholders ``{results}``, ``{model}`` … (see :mod:`tvmake.artifact.paths`)."""
    parameter: str = ""
    """The function's parameter, which is an option of the command."""
    help: str = ""
    is_directory: bool = False
    members: tuple[str, ...] = ()
    """Artifacts inside a directory."""
    is_locked: bool = True
    """Whether a lock compares it, if the stage is hermetic."""
    has_parts: bool = False
    """Whether a lock also records digests of its parts, whose names show where two versions differ."""

    @cached_property
    def path(self) -> str:
        """The path, with wildcards."""
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
    """Below the directory of logs."""
    parameter: str = ""
    """The function's parameter, for a log that the stage writes itself."""
    help: str = ""


@dataclass(frozen=True)
class Parameter:
    """A value of a command, other than files and the request."""

    name: str
    type: type
    help: str
    value: Callable[[JobContext], str | int]
    """The value for a job."""
    minimum: int | None = None


@dataclass(frozen=True)
class Stage:
    """A stage: its function and its description.

    The function takes, by name, the parameters of inputs and outputs (paths; lists of paths for ``is_many``), of
    logs, ``parameters``, and ``request`` if there is a request model. An output exists for each job with its wildcards;
    outputs with different wildcards and the same parameter belong to different jobs.
    """

    name: str
    summary: str
    """One sentence; the command's help."""
    function: Callable[..., Any]
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    logs: tuple[Log, ...]
    request_model: type[BaseModel] | None = None
    """The type of the function's ``request``, which the command reads from ``--options``."""
    request: Callable[[Any], BaseModel] | None = None
    """Creates a job's request from the config (takes a :class:`JobContext`). It contains exactly what the stage reads."""
    exists: Callable[[JobContext], bool] = lambda _: True
    """Whether a variant has such a job; the context has the wildcards of the job and the variant."""
    parameters: tuple[Parameter, ...] = ()
    subject: Callable[[Mapping[str, Any]], object] | None = None
    """The subject of a run in messages, from the function's arguments; the first input by default."""
    report: Callable[[Any], Iterable[str]] = lambda _: ()
    """Lines to print about the function's result."""
    reads: Callable[[Mapping[str, Any]], Iterable[Path]] = lambda _: ()
    """Files that jobs depend on but no parameter names, from the function's arguments: the user's files, and results."""
    code: Callable[[Any], Sequence[str]] | None = None
    """Modules that a request loads by name, as dotted names; they are part of the stage's code."""
    rules: tuple[str, ...] = ()
    """The workflow's rules, if their names differ from the stage's."""

    is_goal: bool = False
    """Whether its outputs are goals of a run: without them a variant, or the run, is not made."""
    is_hermetic: bool = False
    """Whether the same inputs give the same bytes (of stages that measure: with records from a lock)."""
    recipe: Recipe | None = None
    """How the cache's key is computed; None for a stage that is not cached."""

    memory_mb: int = 1000
    """Memory in MB, without the model's weights; 300 MB of it for Snakemake, which runs with the job on a cluster."""
    minutes: int = 20
    """Basic time limit; the model, the trials and the device's limits add to it."""
    more_seconds: Callable[[JobContext], float] = lambda _: 0
    """Additional seconds of the time limit for a job's options."""
    holds_weights: bool = True
    """Whether memory and time grow with the model's weights."""
    is_on_device: bool = False
    is_timing: bool = False
    """Whether it measures time. On a cluster it gets an exclusive node if the device is the node."""
    is_alone: bool = False
    """Whether it needs this machine exclusively if the device is this machine."""

    server: str = "compiler"
    """The kind of fork server for its commands: ``compiler``, ``tuner``, or ``model``, which selects the one for
    the model's format (see :mod:`tvmake.stages.preload`)."""
    preload: tuple[str, ...] = ()
    """Modules that this server loads in advance."""

    @property
    def module(self) -> str:
        """The module of the function."""
        return self.function.__module__

    @property
    def rule_names(self) -> tuple[str, ...]:
        """The workflow's rules for this stage."""
        return self.rules or (self.name,)

    @property
    def sources(self) -> tuple[Input, ...]:
        """The inputs that no stage makes."""
        return tuple(entry for entry in self.inputs if entry.is_source)

    @property
    def takes_lock(self) -> bool:
        """Whether the function takes a lock."""
        return LOCK in self.inputs

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
        """Whether budgets determine its jobs or their inputs."""
        return any(entry.round for entry in self.inputs)

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """The stage's jobs, grouped by their wildcards."""
        outputs_by_wildcards: dict[tuple[str, ...], list[Output]] = {}
        for output in self.outputs:
            outputs_by_wildcards.setdefault(output.wildcards, []).append(output)
        return tuple(
            Kind(
                self, wildcards, tuple(outputs), tuple(log for log in self.logs if wildcards_of(log.path) == wildcards)
            )
            for wildcards, outputs in outputs_by_wildcards.items()
        )

    @cached_property
    def wildcards(self) -> frozenset[str]:
        """The wildcards of its jobs."""
        return frozenset(name for kind in self.kinds for name in kind.wildcards)

    def roots(self, request: BaseModel | None) -> tuple[str, ...]:
        """The entry modules of the code for a request."""
        return (self.module, *(self.code(request) if self.code and request is not None else ()))


@dataclass(frozen=True)
class Kind:
    """Jobs of a stage with the same wildcards."""

    stage: Stage
    wildcards: tuple[str, ...]
    outputs: tuple[Output, ...]
    logs: tuple[Log, ...]


def wildcards_of(path: str) -> tuple[str, ...]:
    """The wildcards of a path's pattern, in order, without ``results``."""
    return tuple(name for name in dict.fromkeys(re.findall(r"\{(\w+)\}", path)) if name != "results")
