"""What each pass of a target's tuning plans: budget files, read once however many jobs ask."""

from pathlib import Path

from tvmake.artifact.stage_json import load
from tvmake.artifact.tasks import Budget, KernelBudget


class Budgets:
    """Budget files by path. A file that has changed is read again."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[int, _Pass]] = {}

    def kernels(self, budget: str) -> dict[str, KernelBudget]:
        """What a pass plans for each kernel, by workload, heaviest first."""
        return self._pass(budget).kernels

    def workloads(self, budget: str, user: str | None = None) -> list[str]:
        """The workloads of a pass, or of one variant (``model/precision``) in it, heaviest first."""
        found = self._pass(budget)
        return list(found.kernels) if user is None else found.by_user.get(user, [])

    def _pass(self, budget: str) -> "_Pass":
        path = Path(budget)
        # A checkpoint that runs again writes its file again in the same process.
        version = path.stat().st_mtime_ns
        if budget not in self._read or self._read[budget][0] != version:
            self._read[budget] = (version, _Pass(load(Budget, path).kernels))
        return self._read[budget][1]


class _Pass:
    def __init__(self, kernels: dict[str, KernelBudget]):
        self.kernels = kernels
        self.by_user: dict[str, list[str]] = {}
        for workload, kernel in kernels.items():
            for user in kernel.users:
                self.by_user.setdefault(user, []).append(workload)
