"""All stages: every module in the packages beside this one that has a ``STAGE``."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import tvmake.stages
from tvmake.artifact import paths
from tvmake.errors import InputError
from tvmake.stages.descriptor import Kind, Output, Stage, file_name

if TYPE_CHECKING:
    from tvmake.stages.context import JobContext

RESOLVED_CONFIG = Output("config.resolved.yaml", paths.RUN)
"""The resolved config. No stage makes it; it is written when a run starts."""


@cache
def stages() -> Mapping[str, Stage]:
    """The stages by name, in the order of the data flow.

    Raises:
        ValueError: two stages have the same name or artifact, no stage makes an artifact that is read, or stages read from
            each other.
    """
    modules = [stage for module in _modules().values() if (stage := _stage_in(module))]
    return {stage.name: stage for stage in _sort_by_inputs(modules)}


def stage_named(name: str) -> Stage:
    """Return a stage. Loads only its module, if the module has the stage's name.

    Raises:
        InputError: the stage does not exist.
    """
    for module in (name, f"{name}_model"):
        if module in _modules() and (stage := _stage_in(_modules()[module])) and stage.name == name:
            return stage
    if name not in stages():
        raise InputError(name, "no such stage", f"there are: {', '.join(stages())}")
    return stages()[name]


@cache
def artifacts() -> Mapping[str, Output]:
    """All artifacts by name, in the order of the data flow."""
    outputs = [*(output for stage in stages().values() for output in stage.outputs), RESOLVED_CONFIG]
    return {output.artifact: output for output in outputs}


@cache
def patterns() -> Mapping[str, str]:
    """The paths of all artifacts with ``{results}`` and wildcards, including files inside directories."""
    paths_by_name = {}
    for name, output in artifacts().items():
        paths_by_name[name] = output.path
        paths_by_name.update({member: f"{output.path}/{file_name(member)}" for member in output.members})
    return paths_by_name


@cache
def rules() -> Mapping[str, Kind]:
    """The workflow's rules, with the kind of job of each."""
    return {rule: kind for stage in stages().values() for rule, kind in zip(stage.rule_names, stage.kinds, strict=True)}


@cache
def searching_rules() -> frozenset[str]:
    """The workflow's rules whose jobs write a log of trials."""
    return frozenset(rule for stage in stages().values() if stage.is_searching for rule in stage.rule_names)


@cache
def maker(artifact: str) -> Stage | None:
    """The stage that makes an artifact; None for files that are written when a run starts."""
    makers = (
        stage
        for stage in stages().values()
        for output in stage.outputs
        if artifact == output.artifact or artifact in output.members
    )
    return next(makers, None)


def files_of_variants(artifact: str, variants: Iterable[JobContext]) -> list[str]:
    """An artifact's files for each variant that has it: numerics and latency need a device, records tuning, ranges ``int8``."""
    stage = maker(artifact)
    return list(dict.fromkeys(variant.file(artifact) for variant in variants if stage is None or stage.exists(variant)))


@cache
def goal_stages() -> frozenset[str]:
    """The stages of a full run: those that make goals, and all that these depend on."""
    pending = [stage for stage in stages().values() if stage.is_goal]
    names: set[str] = set()
    while pending:
        stage = pending.pop()
        if stage.name not in names:
            names.add(stage.name)
            pending += [source for entry in stage.inputs for name in entry.names if (source := maker(name))]
    return frozenset(names)


def pattern(artifact: str, results: str) -> str:
    """An artifact's path with wildcards (``{model}``, ``{target}`` …)."""
    return patterns()[artifact].replace("{results}", results)


def path(artifact: str, results: str, **wildcards: str | int) -> str:
    """An artifact's path for one model, precision, target …"""
    return patterns()[artifact].format(results=results, **wildcards)


@cache
def _modules() -> Mapping[str, str]:
    """Full names of the modules that may have a stage, by their last part."""
    root = Path(tvmake.stages.__path__[0])
    return {
        path.stem: ".".join([tvmake.stages.__name__, *path.relative_to(root).with_suffix("").parts])
        for path in sorted(root.glob("*/*.py"))
        if path.stem != "__init__"
    }


def _stage_in(module: str) -> Stage | None:
    return getattr(importlib.import_module(module), "STAGE", None)


def _sort_by_inputs(unordered: list[Stage]) -> Iterator[Stage]:
    """Yield each stage after those whose artifacts it reads; otherwise by name."""
    makers: dict[str, str] = {}
    for stage in unordered:
        for name in (name for output in stage.outputs for name in (output.artifact, *output.members)):
            if makers.setdefault(name, stage.name) != stage.name:
                raise ValueError(f"stages {makers[name]} and {stage.name} both make '{name}'")
    if len({stage.name for stage in unordered}) < len(unordered):
        raise ValueError("two stages have the same name")
    waiting = {stage.name: (stage, _sources(stage, makers)) for stage in unordered}
    while waiting:
        ready = next((name for name in sorted(waiting) if not waiting[name][1] & waiting.keys()), None)
        if ready is None:
            raise ValueError(f"stages read from each other: {', '.join(sorted(waiting))}")
        yield waiting.pop(ready)[0]


def _sources(stage: Stage, makers: Mapping[str, str]) -> set[str]:
    named = [name for entry in stage.inputs if not entry.is_of_earlier_round for name in entry.names]
    if missing := [name for name in named if name not in makers]:
        raise ValueError(f"stage {stage.name} reads '{missing[0]}', which no stage makes")
    return {makers[name] for name in named} - {stage.name}  # a job may read what another job of its stage makes
