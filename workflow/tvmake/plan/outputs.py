"""Whether a file on disk is one that some plan's jobs make, and whether this plan's jobs do."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tvmake.config.root import RESERVED_MODEL_NAMES
from tvmake.plan.plan import Plan
from tvmake.stages import registry

ROUND, FORMER_ROUND = "/round{number}/", "/pass{number}/"
"""A round's directory, and what it was called in earlier versions."""

NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]*"
SHAPES = {
    "model": rf"(?!(?:{'|'.join(sorted(RESERVED_MODEL_NAMES))})/){NAME}",
    "precision": NAME,
    "target": NAME,
    "layout": "[A-Za-z0-9]+",
    "number": "[0-9]+",
    "workload": "[0-9a-f]{64}",
}
"""What the wildcards of a path may be."""


@dataclass(frozen=True)
class Recognised:
    """A file by its name: what it is, and of what."""

    artifact: str
    wildcards: Mapping[str, str]
    is_former: bool = False
    """The path is one that earlier versions used."""


def recognise(path: str, results: str) -> Recognised | None:
    """What a file or directory under ``results`` or ``logs`` is; a log counts as the artifact made with it.

    None for what no stage makes.
    """
    for pattern, artifact, is_former in _patterns(results):
        if match := pattern.fullmatch(path):
            return Recognised(artifact, match.groupdict(), is_former)
    return None


@cache
def logs() -> Mapping[str, str]:
    """The stages' logs, and the artifact that is made with each."""
    return {
        log.path: kind.outputs[0].artifact
        for stage in registry.stages().values()
        for kind in stage.kinds
        for log in kind.logs
    }


@cache
def directories() -> frozenset[str]:
    """Artifacts that are directories, made and removed as a whole."""
    return frozenset(name for name, output in registry.artifacts().items() if output.is_directory)


@cache
def _patterns(results: str) -> list[tuple[re.Pattern[str], str, bool]]:
    named = [(registry.pattern(artifact, results), artifact) for artifact in registry.artifacts()]
    present = [(path, artifact, False) for path, artifact in [*named, *logs().items()]]
    former = [(path.replace(ROUND, FORMER_ROUND), artifact, True) for path, artifact, _ in present if ROUND in path]
    return [(_compiled(path), artifact, is_former) for path, artifact, is_former in present + former]


def _compiled(path: str) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", path)
    return re.compile(
        "".join(
            re.escape(part) if index % 2 == 0 else f"(?P<{part}>{SHAPES[part]})" for index, part in enumerate(parts)
        )
    )


class PlannedFiles:
    """The files that a plan's jobs make, as far as the budgets that are there tell."""

    def __init__(self, plan: Plan):
        self._plan = plan
        self._files = set(_of_run(plan))
        for variant in plan.variants:
            self._files.update(plan.outputs_of(variant))

    def has(self, found: Recognised) -> bool:
        """Whether the plan's jobs make this file, or may yet: the kernels of a round are known once it has a budget."""
        if found.is_former:
            return False
        if "workload" in found.wildcards:
            budget = registry.path("budget.json", self._plan.config.results, **found.wildcards)
            if budget in self._files and not Path(budget).is_file():
                return True
        return registry.path(found.artifact, self._plan.config.results, **found.wildcards) in self._files


def _of_run(plan: Plan) -> Iterable[str]:
    return (plan.file(name) for name, output in registry.artifacts().items() if not output.wildcards)
