"""The search for one kernel: propose, measure, store, learn, until its budget is spent.

MetaSchedule proposes candidates and learns; the loop around it is ours, so that every measured candidate is stored at
once, earlier records count and teach, and a search that cannot succeed stops and says why.
"""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from tvmake.artifact.files import canonical_json
from tvmake.config.requests.tuning import SearchOptions
from tvmake.device.interface import Fingerprint
from tvmake.errors import DeviceError, InputError
from tvmake.records.plausible import implausible
from tvmake.records.record import Place, Record, Status, Verdict
from tvmake.records.standing import ranked
from tvmake.records.store import RecordStore, StoredRecord
from tvmake.tune.cost_model import OWN, cost_model, learn, lesson_of, result, some
from tvmake.tune.grid import Grid
from tvmake.tune.isolation import Refused
from tvmake.tune.lessons import Lesson
from tvmake.tune.measuring.interface import Candidate, Measured, Measurer
from tvmake.tune.spaces import context
from tvmake.tune.trace import trace_json
from tvmake.tune.vetting import vet
from tvmake.tune.workload import Workload

HOPELESS = 32
"""Candidates that may fail, with none that works, before the search gives up."""

STALE = 5
"""Batches in a row with nothing new before the space counts as exhausted."""

NAMED = 3
"""Records that a warning names."""


def to_stderr(warning: str) -> None:
    """Write a warning where a job's log gets it."""
    print(f"warning: {warning}", file=sys.stderr)


class NothingWorksError(DeviceError):
    """None of a kernel's candidates built, ran and gave a plausible time."""


@dataclass(frozen=True)
class Trial:
    """One measured candidate, for whoever watches."""

    number: int
    """Counted over all runs, from 1."""
    status: Status
    latency_ms: float | None
    best_ms: float | None
    error: str | None


@dataclass
class Search:
    """One kernel's search; :meth:`run` does it."""

    workload: Workload
    place: Place
    store: RecordStore
    measurer: Measurer
    device: Fingerprint
    options: SearchOptions
    trials: int
    """Candidates to have in the store when it ends."""
    cores: int
    """Of the device."""
    threads: int
    """For the search itself."""
    lessons: Sequence[Lesson] = ()
    """What was measured of other kernels of the same place, to learn from."""
    watch: Callable[[Trial], None] = lambda _: None
    warn: Callable[[str], None] = to_stderr
    measured: int = 0
    """Candidates measured by this run."""
    lesson: Lesson | None = None
    """What the cost model was shown of this kernel, once the search has ended."""
    _known: dict[str, StoredRecord] = field(default_factory=dict)
    _proposed: set[str] = field(default_factory=set)
    """What this run has met, measured or known."""
    _errors: list[str] = field(default_factory=list)

    def run(self) -> str:
        """Search until the budget is spent; every candidate is in the store as soon as it is measured.

        Returns:
            Why it stopped: ``budget``, ``early stopping``, ``deadline`` or ``space exhausted``.

        Raises:
            InputError: the kernel has no schedules, or its space is too large for a grid.
            NothingWorksError: nothing that was measured worked.
        """
        stored = self._load()
        # A candidate whose device was lost may be tried again.
        known = [one for one in stored if one.status != "device_lost"]
        self._known = {canonical_json(one.record.trace): one for one in known}
        if self._spent >= self.trials:
            return "budget"
        began = time.monotonic()
        source = self._source(stored)
        stale = 0
        while self._spent < self.trials:
            if self.options.deadline_s is not None and time.monotonic() - began > self.options.deadline_s:
                return "deadline"
            if self._is_stuck():
                return "early stopping"
            batch = source.propose(self.options.batch)
            if batch is None or stale == STALE:
                return "space exhausted"
            batch = self._affordable(batch)
            stale = 0 if self._is_news(batch) else stale + 1
            self._measure_new(batch)
            source.learn(batch, [self._outcome(one) for one in batch])
            if isinstance(source, Proposals):
                self.lesson = lesson_of(source.model, self.workload)
            self._give_up_if_hopeless()
        return "budget"

    def _load(self) -> list[StoredRecord]:
        journal = self.store.journal(self.place, self.workload.key)
        before = journal.set_aside()
        stored = self.store.load(self.place, self.workload.key)
        if bad := journal.set_aside() - before:
            self.warn(f"{journal.path}: {bad} damaged lines set aside (in {journal.quarantine.name}, with the reason)")
        return stored

    @property
    def _spent(self) -> int:
        return sum(1 for one in self._known.values() if one.status != "device_lost")

    @property
    def best_ms(self) -> float | None:
        """The best latency in the store, in ms."""
        return min((ms for one in self._known.values() if (ms := one.latency_ms) is not None), default=None)

    def _is_stuck(self) -> bool:
        patience = self.options.early_stopping
        if patience is None or self._spent < patience:
            return False
        latencies = [one.latency_ms for one in self._known.values()]
        best = min((ms for ms in latencies if ms is not None), default=None)
        return best is not None and best not in latencies[-patience:]

    def _source(self, stored: Sequence[StoredRecord]) -> "Source":
        ctx = context(self.workload, self.options, self.cores, self.threads)
        spaces = list(ctx.generate_design_space())
        if not spaces:
            raise InputError(f"kernel {self.workload.key[:12]}", "MetaSchedule has no schedules for it")
        if self.options.strategy == "grid":
            return Grid(ctx, spaces)
        return Proposals(self, ctx, spaces, stored)

    def leave_out(self, refused: Mapping[str, Refused]) -> None:
        """Note records whose trace is no schedule of this kernel, so that nobody tries them again, and say so."""
        if not refused:
            return
        verdicts = {
            digest: Verdict(record=digest, right=False, reason=str(why), checked_at=_now())
            for digest, why in refused.items()
            if why.is_final
        }
        self.store.append(self.place, self.workload.key, list(verdicts.values()))
        for key, one in self._known.items():
            if one.digest in verdicts:
                self._known[key] = StoredRecord(one.record, one.digest, verdicts[one.digest])
        named = ", ".join(digest[:12] for digest in list(refused)[:NAMED]) + (", …" if len(refused) > NAMED else "")
        why = str(next(iter(refused.values())))
        self.warn(f"kernel {self.workload.key[:12]}: {len(refused)} unusable records left out ({named}): {why}")

    def _affordable(self, batch: Sequence[Any]) -> list[Any]:
        """A batch up to where the budget ends. What is in the store costs nothing: a strategy with a seed proposes it
        again, and goes on after it as a run that was never interrupted."""
        left, taken, fresh = self.trials - self._spent, [], set()
        for one in batch:
            key = _trace_key(one)
            if key not in self._known and key not in fresh:
                if len(fresh) == left:
                    break
                fresh.add(key)
            taken.append(one)
        return taken

    def _is_news(self, batch: Sequence[Any]) -> bool:
        """Whether a batch has anything that this run has not met before."""
        keys = {_trace_key(one) for one in batch}
        news = not keys <= self._proposed
        self._proposed |= keys
        return news

    def _measure_new(self, batch: Sequence[Any]) -> None:
        """Measure what is not in the store yet."""
        fresh: dict[int, Any] = {}
        keys: dict[int, str] = {}
        for number, one in enumerate(batch):
            key = _trace_key(one)
            if not self._is_measured(key) and key not in keys.values():
                fresh[number], keys[number] = one, key
        asked = [Candidate(number, one.sch.mod, list(one.args_info)) for number, one in fresh.items()]
        for measured in self.measurer.measure(asked):
            self._keep(keys[measured.number], fresh[measured.number], measured)

    def _is_measured(self, key: str) -> bool:
        known = self._known.get(key)
        return known is not None and known.status != "device_lost"

    def _keep(self, key: str, proposed: Any, measured: Measured) -> None:
        record = self._record(proposed, measured)
        if (problem := implausible(record)) is not None:
            measured = replace(measured, status="run_error", samples_s=(), error=problem)
            record = self._record(proposed, measured)
        self.store.append(self.place, self.workload.key, [record])
        self._known[key] = StoredRecord(record=record, digest=record.digest, verdict=None)
        self.measured += 1
        if measured.error:
            self._errors.append(f"{measured.status.replace('_', ' ')}: {measured.error}")
        self.watch(Trial(self._spent, measured.status, self._known[key].latency_ms, self.best_ms, measured.error))

    def _record(self, proposed: Any, measured: Measured) -> Record:
        return Record(
            trace=trace_json(proposed.sch.trace),
            status=measured.status,
            samples_s=measured.samples_s,
            error=measured.error,
            measured_at=_now(),
            device=self.device,
            strategy=self.options.strategy,
            cost_model=self.options.cost_model,
            seed=self.options.seed,
            batch=self.measured // self.options.batch,
        )

    def _outcome(self, proposed: Any) -> Any:
        stored = self._known.get(_trace_key(proposed))
        if stored is None or stored.latency_ms is None:
            return result((), stored.record.error if stored else None)
        return result(stored.samples_s)

    def _give_up_if_hopeless(self) -> None:
        if self.best_ms is None and self.measured >= min(HOPELESS, self.trials) and self._errors:
            raise NothingWorksError(
                f"kernel {self.workload.key[:12]}",
                f"none of {self.measured} candidates worked; the first failed with {self._errors[0]}",
                "see the records with `tvmake records show`",
            )


class Proposals:
    """Candidates from MetaSchedule's own strategies."""

    def __init__(self, search: Search, ctx: Any, spaces: Sequence[Any], stored: Sequence[StoredRecord]):
        from tvm.s_tir import meta_schedule

        options = search.options
        # MetaSchedule's cost models draw from numpy's global generator.
        np.random.seed(options.seed)
        self.ctx = ctx
        self.target = ctx.target
        self.database = meta_schedule.database.MemoryDatabase()
        self.own = self.database.commit_workload(search.workload.module)
        self.model = None
        if options.strategy == "evolutionary":
            teaches = options.warm_start and options.cost_model == "xgb"
            usable = [one for one in stored if one.status != "device_lost" and not _is_wrong(one)]
            fastest = ranked(usable)[: options.population]
            vetted = vet(
                search.workload, ctx, spaces, fastest, some(usable, OWN, options.seed) if teaches else fastest[:0]
            )
            search.leave_out(vetted.refused)
            self.model = cost_model(options.cost_model, search.threads)
            for record in vetted.population:
                self.database.commit_tuning_record(record)
            if teaches:
                learn(self.model, [*search.lessons, *([vetted.lesson] if vetted.lesson else [])])
        # MetaSchedule counts what it proposes, known candidates too; our own budget ends the search.
        ctx.pre_tuning(
            max_trials=1_000_000,
            num_trials_per_iter=options.batch,
            design_spaces=list(spaces),
            database=self.database if self.model is not None else None,
            cost_model=self.model,
        )

    def propose(self, _count: int) -> list[Any] | None:
        """The next candidates, a batch as the context was told; None when there are no more."""
        batch = self.ctx.generate_measure_candidates()
        return None if batch is None else list(batch)

    def learn(self, batch: Sequence[Any], results: Sequence[Any]) -> None:
        """Tell strategy, database and cost model what became of a batch."""
        from tvm.s_tir.meta_schedule.database import TuningRecord

        for one, outcome in zip(batch, results, strict=True):
            if outcome.run_secs is not None:
                record = TuningRecord(one.sch.trace, self.own, list(outcome.run_secs), self.target, list(one.args_info))
                self.database.commit_tuning_record(record)
        if self.model is not None:
            self.model.update(self.ctx, list(batch), list(results))
        self.ctx.notify_runner_results(list(batch), list(results))


Source = Proposals | Grid


def _trace_key(proposed: Any) -> str:
    return canonical_json(trace_json(proposed.sch.trace))


def _is_wrong(stored: StoredRecord) -> bool:
    return stored.verdict is not None and not stored.verdict.right


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
