"""What is known of a stage. Commands, plan, files, resources, cache keys and locks are derived from it."""

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
    round: Callable[[JobContext], int] | None = None
    """The round of tuning whose budget determines the paths; a rule has to wait for that budget. 0 is none."""
    has_no_time: bool = False
    """Whether a newer file alone reruns no job: another input, or the parameters, say that it has changed."""

    @property
    def is_source(self) -> bool:
        """Whether it is given by the user, and not made by a stage."""
        return not self.artifacts

    @property
    def names(self) -> tuple[str, ...]:
        """The artifacts."""
        return (self.artifacts,) if isinstance(self.artifacts, str) else self.artifacts

    @property
    def name(self) -> str:
        """What rules call it; sources share one name."""
        return self.parameter or ("sources" if self.is_source else Path(self.names[0]).stem)

    def paths(self, job: JobContext) -> Sequence[str]:
        """The paths that a job reads."""
        return self.files(job) if self.files else [job.file(self.names[0])]


LOCK = Input(files=lambda job: job.lock_files)
"""The lock that gives a target's records or choices; the function takes its path as ``frozen``, and as ``variant`` what to take from it."""


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
    subject: Callable[[Mapping[str, Any]], object] | None = None
    """What a run is called after, given the function's arguments; by default the first input."""
    report: Callable[[Any], Iterable[str]] = lambda _: ()
    """Lines to print of what the function returned."""
    reads: Callable[[Mapping[str, Any]], Iterable[Path]] = lambda _: ()
    """Files that its jobs depend on and that no parameter names, given the function's arguments: the user's files, and results."""
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
    is_timing: bool = False
    """Whether it measures how long something takes; on a cluster it has a node to itself if the device is the node."""
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
    def sources(self) -> tuple[Input, ...]:
        """What it reads that no stage makes."""
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
        """Whether budgets say which of its jobs there are, or what they read."""
        return any(entry.round for entry in self.inputs)

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
