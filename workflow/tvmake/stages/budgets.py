"""The plans of a target's tuning rounds: budget files, each read once."""

import os
from collections.abc import Sequence
from pathlib import Path

from tvmake.artifact.stage_json import load
from tvmake.artifact.tasks import Budget, KernelBudget
from tvmake.errors import InputError


class Round:
    """The plan of a tuning round for each kernel."""

    def __init__(self, kernels: dict[str, KernelBudget], version: int):
        self.kernels = kernels
        """Kernels by workload, most expensive first."""
        self.version = version
        """Modification time of the budget, in ns."""
        self._by_user: dict[str, list[str]] = {}
        for workload, kernel in kernels.items():
            for user in kernel.users:
                self._by_user.setdefault(user, []).append(workload)

    def workloads(self, user: str | None = None) -> Sequence[str]:
        """The workloads of the round, or of one variant (``model/precision``) in it, most expensive first."""
        return list(self.kernels) if user is None else self._by_user.get(user, [])


class Budgets:
    """Budget files by path. A changed file is read again."""

    def __init__(self) -> None:
        self._rounds: dict[str, Round] = {}

    def kernels(self, budget: str) -> dict[str, KernelBudget]:
        """The plan of a round for each kernel, by workload, most expensive first."""
        return self._round(budget).kernels

    def workloads(self, budget: str, user: str | None = None) -> Sequence[str]:
        """The workloads of a round, or of one variant (``model/precision``) in it, most expensive first."""
        return self._round(budget).workloads(user)

    def known(self, budget: str) -> Round | None:
        """A round, if its budget exists and can be read."""
        try:
            return self._round(budget)
        except (OSError, InputError):
            return None

    def _round(self, budget: str) -> Round:
        # A checkpoint that reruns writes its file again in the same process.
        version = os.stat(budget).st_mtime_ns  # noqa: PTH116  # for every job
        if budget not in self._rounds or self._rounds[budget].version != version:
            self._rounds[budget] = Round(load(Budget, Path(budget)).kernels, version)
        return self._rounds[budget]
