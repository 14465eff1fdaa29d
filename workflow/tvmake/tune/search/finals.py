"""The end of a search: its best candidates are timed again, interleaved.

Candidates are measured sequentially, for minutes. On a busy machine, or a phone that warms up, the winner would often be a
candidate that was measured at a favourable moment.
"""

from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime

from tvmake.artifact.fingerprint import Fingerprint
from tvmake.artifact.size_points import SizePoint
from tvmake.codegen.scheduling.replay import replay_all
from tvmake.process.isolation import Refused
from tvmake.records.plausible import implausible_samples
from tvmake.records.preference import RULE, sort_by_preference
from tvmake.records.record import Comparison, PointSamples
from tvmake.records.store import StoredRecord
from tvmake.records.workload import Workload
from tvmake.tune.measure.interface import Measurer, point_samples
from tvmake.tune.search.starts import candidate

TURNS = 2
"""Number of measurements of each finalist."""

CANDIDATES_EACH = 8
"""Number of candidates per additional finalist from the third on; the comparison then adds a quarter to the measurements."""

FEWEST_CANDIDATES = 4
"""With fewer candidates nothing is compared."""


def finalists(stored: Sequence[StoredRecord], count: int) -> list[StoredRecord]:
    """Return a kernel's best records, including the schedule of the target's rules; empty if there is nothing to compare.

    With dynamic dimensions there are few candidates, measured at several sizes, so that noise favours the rules' schedule,
    which must not be slower at any size: the full number is compared.
    """
    if len(stored) < FEWEST_CANDIDATES:
        return []
    ordered = sort_by_preference(stored, allows_losses=True)
    if not stored[0].points:
        count = min(count, max(2, len(stored) // CANDIDATES_EACH))
    best = ordered[:count]
    rule = next((record for record in ordered if record.record.strategy == RULE), None)
    if rule is not None and rule not in best:
        best = [*best[:-1], rule]
    return best if count > 1 and len(best) > 1 else []


def compare(
    workload: Workload,
    records: Sequence[StoredRecord],
    measurer: Measurer,
    device: Fingerprint,
    points: Sequence[SizePoint] = (),
) -> Comparison | None:
    """Time records interleaved.

    Args:
        points: the sizes of the kernel's dynamic dimensions.

    Returns:
        The comparison; None if a device was lost or all records fail now.

    Raises:
        DeviceError: no device is available.
        MachineError: processes or files cannot be created.
    """
    kernels = replay_all([(workload, record.record.trace) for record in records])
    samples: dict[str, tuple[float, ...]] = {record.digest: () for record in records}
    by_point: dict[str, list[tuple[float, ...]]] = {record.digest: [()] * len(points) for record in records}
    working = {number: kernel for number, kernel in enumerate(kernels) if not isinstance(kernel, Refused)}
    for _ in range(TURNS):
        with closing(
            measurer.measure([candidate(number, kernel, points) for number, kernel in working.items()])
        ) as results:
            for measured in results:
                digest = records[measured.number].digest
                if measured.status == "device_lost":
                    return None
                if measured.status == "ok" and implausible_samples(measured.samples_s) is None:
                    samples[digest] += measured.samples_s
                    for index, entry in enumerate(point_samples(measured, points)):
                        by_point[digest][index] += entry
                else:
                    samples[digest] = ()
                    del working[measured.number]
    if not any(samples.values()):
        return None
    measured_points = {
        digest: tuple(
            PointSamples(**point.model_dump(), samples_s=entry)
            for point, entry in zip(points, by_point[digest], strict=True)
        )
        for digest, timed in samples.items()
        if timed and points
    }
    return Comparison(
        samples_s=samples,
        compared_at=datetime.now(UTC).isoformat(timespec="seconds"),
        device=device,
        points=measured_points,
    )
