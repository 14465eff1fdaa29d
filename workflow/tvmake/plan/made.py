"""Which files the rules of a plan make, and whether a file on disk is one that some plan's rules have made."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import get_args

from tvmake.config.root import RESERVED_MODEL_NAMES
from tvmake.plan import layout
from tvmake.plan.layout import Artifact
from tvmake.plan.plan import Plan

DIRECTORIES: frozenset[Artifact] = frozenset({"workloads", "kernels", "sources"})
"""Artifacts that are directories, made and removed as a whole."""

OF_RUN: tuple[Artifact, ...] = ("summary", "summary_csv", "page", "resolved_config")
OF_MODEL: tuple[Artifact, ...] = ("imported_module", "imported_params", "signature", "source", "reference")
OF_PRECISION: tuple[Artifact, ...] = ("module", "params", "bound_signature")
OF_CANDIDATE: tuple[Artifact, ...] = ("candidate_module", "candidate_params", "candidate_signature")
OF_CHOICE: tuple[Artifact, ...] = ("chosen_module", "chosen_params", "chosen_signature", "layout")
OF_PACKAGE: tuple[Artifact, ...] = ("lib", "manifest", "weights", "sources", "package", "provenance", "components")
OF_TUNED: tuple[Artifact, ...] = ("tasks", "workloads", "best")
OF_DEVICE: tuple[Artifact, ...] = ("receipt", "numerics", "latency")

LOGS: dict[str, Artifact] = {
    "logs/report.log": "summary",
    "logs/{model}/import.log": "imported_module",
    "logs/{model}/reference.log": "reference",
    "logs/{model}/{precision}/transform.log": "module",
    "logs/{model}/{precision}/layouts/{layout}/transform.log": "candidate_module",
    "logs/{model}/{precision}/{target}/choose_layout.log": "layout",
    "logs/{model}/{precision}/{target}/choose_layout.events.jsonl": "layout",
    "logs/{model}/{precision}/{target}/extract.log": "tasks",
    "logs/{model}/{precision}/{target}/pick_best.log": "best",
    "logs/{model}/{precision}/{target}/build.log": "lib",
    "logs/{model}/{precision}/{target}/export.log": "package",
    "logs/{model}/{precision}/{target}/attest.log": "provenance",
    "logs/{model}/{precision}/{target}/deploy.log": "receipt",
    "logs/{model}/{precision}/{target}/validate.log": "numerics",
    "logs/{model}/{precision}/{target}/benchmark.log": "latency",
    "logs/tuning/{target}/pass{number}/budget.log": "budget",
    "logs/tuning/{target}/pass{number}/{workload}.log": "tuned",
    "logs/tuning/{target}/pass{number}/{workload}.events.jsonl": "tuned",
}
"""The rules' logs, by the artifact that is made with them."""

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

    artifact: Artifact
    wildcards: Mapping[str, str]


def recognise(path: str, results: str) -> Recognised | None:
    """What a file or directory under ``results`` or ``logs`` is; None for what no rule makes."""
    for pattern, artifact in _patterns(results):
        if match := pattern.fullmatch(path):
            return Recognised(artifact, match.groupdict())
    return None


@cache
def _patterns(results: str) -> list[tuple[re.Pattern[str], Artifact]]:
    # A kernel's file lies in a directory that is an artifact of its own.
    paths = [(layout.pattern(artifact, results), artifact) for artifact in get_args(Artifact) if artifact != "kernel"]
    return [(_compiled(path), artifact) for path, artifact in [*paths, *LOGS.items()]]


def _compiled(path: str) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", path)
    return re.compile(
        "".join(
            re.escape(part) if index % 2 == 0 else f"(?P<{part}>{SHAPES[part]})" for index, part in enumerate(parts)
        )
    )


class Made:
    """The files that a plan's rules make, as far as the budgets that are there tell."""

    def __init__(self, plan: Plan):
        self._plan = plan
        self._files = {plan.file(artifact) for artifact in OF_RUN}
        for variant in plan.variants:
            artifacts = [*OF_MODEL, *OF_PACKAGE]
            artifacts += OF_CHOICE if plan.chooses_layout(variant) else OF_PRECISION
            artifacts += OF_TUNED if plan.is_tuned(variant) else ()
            artifacts += OF_DEVICE if plan.device_of(variant.target) else ()
            self._files.update(plan.file(artifact, variant) for artifact in artifacts)
            if plan.chooses_layout(variant):
                for artifact in OF_CANDIDATE:
                    self._files.update(plan.candidates(artifact, variant))
        for target in plan.config.targets:
            users = {f"{variant.model}/{variant.precision}" for variant in plan.tuned_variants(target)}
            for number in range(1, plan.passes(target) + 1) if users else ():
                self._add_pass(target, number, users)

    def _add_pass(self, target: str, number: int, users: set[str]) -> None:
        budget = self._plan.file("budget", target=target, number=number)
        self._files.update((budget, self._plan.file("kernels", target=target, number=number)))
        if not Path(budget).is_file():
            return
        for workload, kernel in self._plan.budgets.kernels(budget).items():
            # A budget that is older than the config still has the kernels of variants that are gone.
            if not users.isdisjoint(kernel.users):
                self._files.add(self._plan.file("tuned", target=target, number=number, workload=workload))

    def has(self, found: Recognised) -> bool:
        """Whether the plan's rules make this file, or may yet: the kernels of a pass are known once it has a budget."""
        if found.artifact == "tuned":
            budget = layout.path("budget", self._plan.config.results, **found.wildcards)
            if budget in self._files and not Path(budget).is_file():
                return True
        return layout.path(found.artifact, self._plan.config.results, **found.wildcards) in self._files
