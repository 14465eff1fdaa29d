"""The search for one kernel: propose, measure, store and learn until the budget is spent.

MetaSchedule proposes candidates and learns. The loop is tvmake's, so that every measured candidate is stored at once,
earlier records count and train the model, and a search that cannot succeed stops with a reason.
"""

import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Any

import tvm

from tvmake.artifact.fingerprint import Fingerprint
from tvmake.artifact.size_points import SizePoint
from tvmake.config.requests.tuning import SearchOptions
from tvmake.errors import DeviceError, InputError
from tvmake.process.isolation import Refused
from tvmake.process.output import counted
from tvmake.records.plausible import implausible
from tvmake.records.record import PointSamples, Record, Status, TuningContext, Verdict
from tvmake.records.store import RecordStore, StoredRecord, of_sizes
from tvmake.records.workload import Workload
from tvmake.storage.files import canonical_json
from tvmake.targets.backends import backend_of
from tvmake.targets.cpu.winograd import is_winograd
from tvmake.tune.measure.interface import Candidate, Measured, Measurer, point_samples
from tvmake.tune.measure.kernel import TIMER
from tvmake.tune.receipts import EXHAUSTED
from tvmake.tune.search.evolution import EVOLUTIONARY, Evolution
from tvmake.tune.search.finals import compare, finalists
from tvmake.tune.search.nearest import nearest_starts
from tvmake.tune.search.spaces import meta_schedule_context
from tvmake.tune.search.starts import Start, candidate, combined_start, further_starts, starts_at_points, starts_by_rule
from tvmake.tune.search.transfer import KernelFeatures
from tvmake.tune.search.whole_pixels import with_whole_pixels
from tvmake.tune.trace import trace_key

MAX_FAILURES = 32
"""Number of failed candidates, without a working one, after which the search gives up."""

MAX_STALE_BATCHES = 5
"""Number of consecutive batches without a new candidate after which the space counts as exhausted."""

FEWEST_COMBINED = 3
"""Number of remaining trials from which one combines the best code of the others for each range of sizes."""

MAX_NAMED = 3
"""Maximum number of records that a warning names."""


def print_warning(warning: str) -> None:
    """Write a warning to the job's log."""
    print(f"warning: {warning}", file=sys.stderr)


class NothingWorksError(DeviceError):
    """None of a kernel's candidates built, ran and gave a plausible time."""


@dataclass(frozen=True)
class Trial:
    """One measured candidate, for a log or a display."""

    number: int
    """Number over all runs, from 1."""
    status: Status
    latency_ms: float | None
    best_ms: float | None
    error: str | None
    is_throttled: bool = False
    """Whether heat visibly slowed the device down."""


@dataclass(frozen=True)
class _Proposal:
    """A measured schedule and its origin."""

    trace: Any
    origin: str
    """``evolutionary``, or one of :data:`tvmake.tune.search.starts.ORIGINS`."""
    batch: int


@dataclass
class Search:
    """One kernel's search; start it with :meth:`run`."""

    workload: Workload
    context: TuningContext
    store: RecordStore
    measuring: Callable[[], AbstractContextManager[Measurer]]
    """Opens the measurer, which takes time; called only if there is something to measure."""
    device: Fingerprint
    options: SearchOptions
    trials: int
    """Number of candidates in the store at the end."""
    target: "tvm.target.Target"
    """Target of the rules that create schedules (see :meth:`tvmake.targets.backend.Backend.search_target`)."""
    threads: int
    """Threads of the search."""
    points: Sequence[SizePoint] = ()
    """Sizes of the kernel's dynamic dimensions at which candidates are measured."""
    finalists: int = 0
    """Number of best candidates for the comparison at the end."""
    transferred: Sequence[KernelFeatures] = ()
    """Measurements of other kernels in the same context, for training."""
    watch: Callable[[Trial], None] = lambda _: None
    warn: Callable[[str], None] = print_warning
    measured: int = 0
    """Number of candidates measured by this run."""
    comparison: str | None = None
    """Digest of the comparison of the finalists, after the search."""
    features: KernelFeatures | None = None
    """The cost model's training data of this kernel, after the search."""
    _known: dict[str, StoredRecord] = field(default_factory=dict)
    _proposed: set[str] = field(default_factory=set)
    """Measured and known candidates that this run met."""
    _errors: list[str] = field(default_factory=list)
    _until: float = math.inf
    """Time of the deadline on the monotonic clock."""

    def run(self) -> str:
        """Search until the budget is spent; every measured candidate is stored at once.

        Returns:
            The reason for the end: ``budget``, ``early stopping``, ``deadline`` or :data:`tvmake.tune.receipts.EXHAUSTED`.

        Raises:
            InputError: the kernel has no schedules.
            NothingWorksError: all measured candidates failed.
        """
        known = [stored for stored in self._load() if not self._is_tried_again(stored)]
        self._known = {canonical_json(stored.record.trace): stored for stored in known}
        is_spent = self._spent >= self.trials
        if is_spent and not self._to_compare():
            return "budget"
        with self.measuring() as measurer:
            stopped = "budget" if is_spent else self._search(measurer)
            self._compare(measurer)
        return stopped

    def _search(self, measurer: Measurer) -> str:
        self._until = time.monotonic() + (self.options.deadline_s or math.inf)
        if self.points:
            self._measure_starts(starts_at_points(self.workload, self.points), measurer, self._trials_to_combine)
            self._measure_starts(combined_start(self.workload, self._known.values()), measurer)
            if self._spent >= self.trials:
                return "budget"
            if time.monotonic() > self._until:
                return "deadline"
            return "early stopping" if self._is_stuck() else EXHAUSTED
        ctx, spaces = self._design_spaces()
        if self.options.warm_start:
            left = self.trials - self._spent
            sources = chain(
                starts_by_rule(self.workload),
                nearest_starts(self.workload, self.store, self.context, spaces, ctx),
                # At most half of the remaining trials unless there are no other candidates.
                islice(further_starts(self.workload), None if self._has_rule_alone else left // 2),
            )
            self._measure_starts(sources, measurer)
            if self._has_rule_alone and self._spent < self.trials:
                return "deadline" if time.monotonic() > self._until else EXHAUSTED
        evolution = Evolution(
            self.workload, self.options, spaces, self.target, self.threads, self._known, self.transferred, self.exclude
        )
        stale = 0
        while self._spent < self.trials:
            if time.monotonic() > self._until:
                return "deadline"
            if self._is_stuck():
                return "early stopping"
            proposed = evolution.propose()
            if proposed is None or stale == MAX_STALE_BATCHES:
                return EXHAUSTED
            batch = self._affordable({trace_key(candidate): candidate for candidate in proposed})
            stale = 0 if self._has_unknown(batch) else stale + 1
            self._measure_new(batch, evolution.number, measurer)
            evolution.learn(batch, [self._known.get(key) for key in batch])
            self.features = evolution.features
            self._stop_if_nothing_works()
        return "budget"

    def _to_compare(self) -> list[StoredRecord]:
        """Return the finalists unless they have been compared; then set ``comparison``."""
        self.comparison = None
        chosen = finalists(list(self._known.values()), self.finalists)
        wanted = {record.digest for record in chosen}
        for digest, comparison in self.store.comparisons(self.context, self.workload.key).items():
            if wanted and wanted <= comparison.samples_s.keys():
                self.comparison = digest
        return [] if self.comparison else chosen

    def _compare(self, measurer: Measurer) -> None:
        chosen = self._to_compare()
        comparison = compare(self.workload, chosen, measurer, self.device, self.points) if chosen else None
        if comparison is not None:
            self.store.append(self.context, self.workload.key, [comparison])
            self.comparison = comparison.digest

    def _is_tried_again(self, stored: StoredRecord) -> bool:
        """Whether a record must be measured again: its device was lost, or its kernel supports CUDA graphs and the record does not
        state the timing method. Such records come from versions that timed single launches, in which short kernels look alike."""
        can_use_graph = backend_of(self.workload.target).captures_graphs
        is_old = can_use_graph and stored.status == "ok" and TIMER not in stored.record.conditions
        return stored.status == "device_lost" or is_old

    def _load(self) -> list[StoredRecord]:
        journal = self.store.journal(self.context, self.workload.key)
        before = journal.count_quarantined()
        stored = of_sizes(self.store.load(self.context, self.workload.key), self.points)
        if bad := journal.count_quarantined() - before:
            lines = counted(bad, "damaged line")
            self.warn(f"{journal.path}: {lines} set aside (in {journal.quarantine.name}, with the reason)")
        return stored

    @property
    def _spent(self) -> int:
        return sum(1 for record in self._known.values() if record.status != "device_lost")

    @property
    def best_ms(self) -> float | None:
        """Return the best latency in the store, in ms."""
        return min((ms for record in self._known.values() if (ms := record.latency_ms) is not None), default=None)

    def _is_stuck(self) -> bool:
        patience = self.options.early_stopping
        if patience is None or self._spent < patience:
            return False
        latencies = [record.latency_ms for record in self._known.values()]
        best = min((ms for ms in latencies if ms is not None), default=None)
        return best is not None and best not in latencies[-patience:]

    @property
    def _has_rule_alone(self) -> bool:
        """Whether no candidates are drawn from MetaSchedule's spaces: for Winograd convolutions they store whole feature maps between
        the steps."""
        return self.options.warm_start and is_winograd(self.workload.module["main"])

    def _design_spaces(self) -> tuple[Any, list[Any]]:
        """Return MetaSchedule's context of the kernel, and the design spaces."""
        workload = self.workload
        ctx = meta_schedule_context(workload, "replay-trace", self.options.seed, self.target, self.threads)
        spaces = [with_whole_pixels(space, workload) for space in ctx.generate_design_space()]
        if not spaces:
            raise InputError(f"kernel {workload.key[:12]}", "MetaSchedule has no schedules for it")
        return ctx, spaces

    def exclude(self, refused: Mapping[str, Refused]) -> None:
        """Record that traces are not schedules of this kernel, so that they are not tried again, and warn."""
        if not refused:
            return
        verdicts = {
            digest: Verdict(record=digest, right=False, reason=str(why), checked_at=_now())
            for digest, why in refused.items()
            if why.is_final
        }
        self.store.append(self.context, self.workload.key, list(verdicts.values()))
        for key, stored in self._known.items():
            if stored.digest in verdicts:
                self._known[key] = StoredRecord(stored.record, stored.digest, verdicts[stored.digest])
        named = ", ".join(digest[:12] for digest in list(refused)[:MAX_NAMED]) + (
            ", …" if len(refused) > MAX_NAMED else ""
        )
        why = str(next(iter(refused.values())))
        self.warn(f"kernel {self.workload.key[:12]}: {len(refused)} unusable records left out ({named}): {why}")

    def _affordable(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Cut a batch at the end of the budget. Stored candidates are free: a seeded search proposes them again and then continues
        like a run without interruption."""
        left = self.trials - self._spent
        affordable: dict[str, Any] = {}
        for key, proposal in batch.items():
            if key not in self._known:
                if left == 0:
                    break
                left -= 1
            affordable[key] = proposal
        return affordable

    def _has_unknown(self, batch: Mapping[str, Any]) -> bool:
        """Whether a batch has candidates that are new to this run."""
        has_unknown = not batch.keys() <= self._proposed
        self._proposed |= batch.keys()
        return has_unknown

    @property
    def _trials_to_combine(self) -> int:
        """Number of trials for :func:`combined_start`."""
        is_worth = backend_of(self.workload.target).has_ranges and self.trials - self._spent >= FEWEST_COMBINED
        return 1 if is_worth else 0

    def _measure_starts(self, sources: Iterable[Start], measurer: Measurer, reserved: int = 0) -> None:
        """Measure new schedules of the target's rules and of similar kernels, as the remaining trials allow.

        Args:
            reserved: number of these to leave.
        """
        left = self.trials - self._spent - reserved
        starts: dict[str, Start] = {}
        for start in sources:
            if len(starts) >= left:
                break
            key = canonical_json(start.trace)
            if not self._is_measured(key):
                starts.setdefault(key, start)
        candidates = [candidate(number, start.kernel, self.points) for number, start in enumerate(starts.values())]
        keys = list(starts)
        for first in range(0, len(candidates), self.options.batch):
            if self.points and self._is_stuck():
                break
            with closing(measurer.measure(candidates[first : first + self.options.batch])) as results:
                for measured in results:
                    key = keys[measured.number]
                    self._store(key, _Proposal(starts[key].trace, starts[key].origin, 0), measured)
                    if time.monotonic() > self._until:
                        break
            if time.monotonic() > self._until:
                break
        self._stop_if_nothing_works()

    def _measure_new(self, batch: Mapping[str, Any], batch_number: int, measurer: Measurer) -> None:
        """Measure the candidates of a batch that are not in the store."""
        keys = [key for key in batch if not self._is_measured(key)]
        candidates = [
            Candidate(number, batch[key].sch.mod, list(batch[key].args_info)) for number, key in enumerate(keys)
        ]
        with closing(measurer.measure(candidates)) as results:
            for measured in results:
                key = keys[measured.number]
                self._store(key, _Proposal(json.loads(key), EVOLUTIONARY, batch_number), measured)
                if time.monotonic() > self._until:
                    # As if interrupted here: a search with more time would continue with this batch.
                    break

    def _is_measured(self, key: str) -> bool:
        known = self._known.get(key)
        return known is not None and known.status != "device_lost"

    def _store(self, key: str, proposal: "_Proposal", measured: Measured) -> None:
        record = self._record(proposal, measured)
        if (problem := implausible(record)) is not None:
            measured = replace(measured, status="run_error", samples_s=(), error=problem)
            record = self._record(proposal, measured)
        self.store.append(self.context, self.workload.key, [record])
        self._known[key] = StoredRecord(record=record, digest=record.digest, verdict=None)
        self.measured += 1
        if measured.error:
            self._errors.append(f"{measured.status.replace('_', ' ')}: {measured.error}")
        hot = measured.conditions.get("throttled", "").startswith("yes")
        self.watch(Trial(self._spent, measured.status, self._known[key].latency_ms, self.best_ms, measured.error, hot))

    def _record(self, proposal: "_Proposal", measured: Measured) -> Record:
        return Record(
            trace=proposal.trace,
            status=measured.status,
            samples_s=measured.samples_s,
            error=measured.error,
            measured_at=_now(),
            device=self.device,
            strategy=proposal.origin,
            cost_model=self.options.cost_model,
            seed=self.options.seed,
            batch=proposal.batch,
            conditions=dict(measured.conditions),
            points=self._point_samples(measured),
        )

    def _point_samples(self, measured: Measured) -> tuple[PointSamples, ...]:
        timed = point_samples(measured, self.points) if measured.status == "ok" else ((),) * len(self.points)
        return tuple(
            PointSamples(**point.model_dump(), samples_s=samples)
            for point, samples in zip(self.points, timed, strict=True)
        )

    def _stop_if_nothing_works(self) -> None:
        if self.best_ms is None and self.measured >= min(MAX_FAILURES, self.trials) and self._errors:
            problem = f"none of {self.measured} candidates worked; the first failed with {self._errors[0]}"
            remedy = "see the records with `tvmake records show`"
            raise NothingWorksError(f"kernel {self.workload.key[:12]}", problem, remedy)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
