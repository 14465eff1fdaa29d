"""Recognise the files that jobs make, and those that this plan's jobs make."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tvmake.config.root import RESERVED_MODEL_NAMES, Config
from tvmake.plan.plan import Plan
from tvmake.stages import registry

NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]*"
MODEL = rf"(?!(?:{'|'.join(sorted(RESERVED_MODEL_NAMES))})/){NAME}"
SHAPES = {
    "model": MODEL,
    "group": MODEL,
    "precision": NAME,
    "target": NAME,
    "layout": "[A-Za-z0-9]+",
    "number": "[0-9]+",
    "workload": "[0-9a-f]{64}",
}
"""Patterns of a path's wildcards."""


@dataclass(frozen=True)
class Recognised:
    """A recognised file: its artifact and wildcards."""

    artifact: str
    wildcards: Mapping[str, str]


def recognise(path: str, config: Config) -> Recognised | None:
    """Recognise a file or directory in a config's results or logs. A log counts as the artifact made with it.

    None if no stage makes it.
    """
    for pattern, artifact in _patterns(config.results, config.logs):
        match = pattern.fullmatch(path)
        # The package of a model with functions is where that of a model without functions would be.
        if match and not config.functions(match.groupdict().get("model", "")):
            return Recognised(artifact, match.groupdict())
    return None


@cache
def logs() -> Mapping[str, str]:
    """The stages' logs, below the directory of logs, with the artifact made with each."""
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
def _patterns(results: str, log_directory: str) -> list[tuple[re.Pattern[str], str]]:
    named = [(registry.pattern(artifact, results), artifact) for artifact in registry.artifacts()]
    named += [(f"{log_directory}/{path}", artifact) for path, artifact in logs().items()]
    return [(_compile(path), artifact) for path, artifact in named]


def _compile(path: str) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", path)
    return re.compile(
        "".join(
            re.escape(part) if index % 2 == 0 else f"(?P<{part}>{SHAPES[part]})" for index, part in enumerate(parts)
        )
    )


class PlannedFiles:
    """The files that a plan's jobs make, as far as existing budgets determine them."""

    def __init__(self, plan: Plan):
        self._plan = plan
        self._files = set(_run_files(plan))
        for variant in plan.variants:
            self._files.update(plan.outputs_of(variant))

    def has(self, file: Recognised) -> bool:
        """Whether the plan's jobs make this file, or may make it: a round's kernels are known only with its budget."""
        if "workload" in file.wildcards:
            budget = registry.path("budget.json", self._plan.config.results, **file.wildcards)
            if budget in self._files and not Path(budget).is_file():
                return True
        return registry.path(file.artifact, self._plan.config.results, **file.wildcards) in self._files


def _run_files(plan: Plan) -> Iterable[str]:
    return (plan.file(name) for name, output in registry.artifacts().items() if not output.wildcards)
