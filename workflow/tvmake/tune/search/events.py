"""Events of a tuning job: one JSON line per trial, for people, plots and the progress display."""

import json
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from tvmake.storage.files import writing
from tvmake.tune.search.search import Trial


class EventLog:
    """Append to ``*.events.jsonl``; every line names its kernel."""

    def __init__(self, path: Path, name: str, workload: str, trials: int, flops: float):
        self.path = path
        self.name = name
        self.workload = workload
        self.trials = trials
        self.flops = flops
        self.began = time.monotonic()

    def __enter__(self) -> "EventLog":
        with writing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.file = self.path.open("a", buffering=1)
        # Warnings about a device come from another thread; a line is one write.
        self._write(event="start", name=self.name, trials=self.trials, flops=self.flops)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._write(event="error", problem=str(error).splitlines()[0] if str(error) else type(error).__name__)
        self.file.close()

    def trial(self, trial: Trial) -> None:
        """Log a measured candidate."""
        self._write(
            event="trial",
            trial=trial.number,
            status=trial.status,
            latency_ms=trial.latency_ms,
            **self._best(trial.best_ms),
            error=trial.error,
            **({"throttled": True} if trial.is_throttled else {}),
        )

    def device_set_aside(self, line: str) -> None:
        """Log that a device was set aside."""
        self._write(event="aside", message=line)

    def stopped(self, why: str, best_ms: float | None) -> None:
        """Log the end of the search."""
        self._write(event="stop", why=why, **self._best(best_ms))

    def _best(self, best_ms: float | None) -> dict[str, float | None]:
        return {"best_ms": best_ms, "gflops": self.flops / best_ms / 1e6 if best_ms else None}

    def _write(self, **what: Any) -> None:
        line = {"at_s": round(time.monotonic() - self.began, 3), "workload": self.workload, **what}
        self.file.write(json.dumps(line) + "\n")
