"""Contexts, records and verdicts to store."""

from pathlib import Path

from tvmake.artifact.fingerprint import Fingerprint
from tvmake.records.record import Record, TuningContext, Verdict

DEVICE = Fingerprint(kind="cpu", soc="Test SoC", cores=2, memory_bytes=8 << 30, os="Linux 6", runtime="tvm 0.27")
CONTEXT = TuningContext(
    generation="tvm-0.27.0", target='{"kind":"llvm","mcpu":"test"}', device_class="Test SoC, 2 threads"
)
OTHER_CONTEXT = CONTEXT.model_copy(update={"device_class": "Test SoC, 4 threads"})
OLD_CONTEXT = CONTEXT.model_copy(update={"generation": "tvm-0.19.0"})

CONV, DENSE = "c" * 64, "d" * 64
DAY = "2026-03-01T12:00:00+00:00"


def record(number: int, *, ms: float | None = 1.0, at: str = DAY, status: str | None = None, error=None, trace=None):
    """A record that differs from those with other numbers; without ``ms`` a failed one."""
    status = status or ("run_error" if ms is None else "ok")
    return Record(
        trace=trace if trace is not None else [[["Split", ["l1"], ["4", number], ["l2", "l3"]]], [["0", [1, number]]]],
        status=status,
        samples_s=() if ms is None else (ms * 1.1e-3, ms * 1e-3, ms * 0.9e-3),
        error=error or (None if ms is not None else "the kernel crashed"),
        measured_at=at,
        device=DEVICE,
        strategy="evolutionary",
        cost_model="xgb",
        seed=number,
        batch=0,
    )


def verdict(about: Record, right: bool, at: str = DAY, reason: str = "compared") -> Verdict:
    """What a check of a record found."""
    return Verdict(record=about.digest, right=right, worst_error=0.0 if right else 0.5, reason=reason, checked_at=at)


def digests(stored) -> list[str]:
    """Names of records, stored or not."""
    return [one.digest for one in stored]


def files(root: Path) -> dict[str, bytes]:
    """Every file below a directory."""
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
