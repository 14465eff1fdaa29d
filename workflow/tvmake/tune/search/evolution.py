"""Candidates of MetaSchedule's evolutionary search: the seed and the earlier records determine each batch.

An interrupted search therefore continues as if it had not been interrupted: its last batch is proposed again, and its
measured candidates count. MetaSchedule itself keeps its proposals only in memory.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm

from tvmake.config.requests.tuning import SearchOptions
from tvmake.process.isolation import Refused
from tvmake.records.store import StoredRecord
from tvmake.records.summary import sort_by_latency
from tvmake.records.workload import Workload, structure
from tvmake.tune.search.cost_model import MAX_RECORDS, WARMUP, cost_model, measured_features, sample_records
from tvmake.tune.search.spaces import meta_schedule_context
from tvmake.tune.search.starts import ORIGINS
from tvmake.tune.search.transfer import KernelFeatures
from tvmake.tune.trace import trace_key
from tvmake.tune.verify.record_validation import ValidRecord, validate_records

EVOLUTIONARY = "evolutionary"
"""Value of a record's strategy for these candidates."""

GENERATIONS = 2
"""Rounds of mutation of a population. Each takes as long as drawing the population: 15–20 ms to replay a candidate and
extract its features. MetaSchedule has 4."""

UNTRAINED_GENERATIONS = 1
"""Rounds while the cost model is untrained; they mutate the best measured candidates."""

FROM_MEASURED = 0.2
"""Fraction of a population that starts from the best measured candidates: MetaSchedule's ``init_measured_ratio``."""

UNMEASURED = 50
"""Minimum number of random candidates in a population: MetaSchedule's ``init_min_unmeasured``."""

RANDOM_SHARE = 0.05
"""Fraction of a batch that is drawn independently of the cost model: MetaSchedule's ``eps_greedy``."""

MAX_TRIALS = 1_000_000
"""Number of candidates that MetaSchedule may propose; tvmake's budget ends the search."""


@dataclass(frozen=True)
class _Known:
    """A record with the parts that the search uses."""

    key: str
    stored: StoredRecord
    valid: ValidRecord | None
    """None for a record with wrong output, or that was not replayed."""

    @property
    def order(self) -> tuple[int, str]:
        """Sort key, independent of the order of measurement; starts come before all batches."""
        batch = _batch(self.stored)
        return -1 if batch is None else batch, self.key


class Evolution:
    """Proposes batches of candidates.

    Args:
        target: target of the rules that create them (see :meth:`tvmake.targets.backend.Backend.search_target`).
        stored: the kernel's records. The next batch is their last one unless it is complete.
        exclude: called with records that are not schedules of this kernel.
    """

    def __init__(
        self,
        workload: Workload,
        options: SearchOptions,
        spaces: Sequence[Any],
        target: "tvm.target.Target",
        threads: int,
        stored: Mapping[str, StoredRecord],
        transferred: Sequence[KernelFeatures],
        exclude: Callable[[Mapping[str, Refused]], None],
    ):
        from tvm.s_tir import meta_schedule

        self.number = _next_batch(stored.values(), options.batch)
        """Number of the next batch, over all runs."""
        self._workload = workload
        self._options = options
        self._spaces = spaces
        self._target = target
        self._threads = threads
        self._transferred = transferred
        self._tvm_workload = meta_schedule.database.Workload(workload.module)
        self._extractor = meta_schedule.feature_extractor.PerStoreFeature()
        self._ctx = self._context(0, 0.0)
        self._known = self._validate(stored, exclude)

    def propose(self) -> list[Any] | None:
        """Return MetaSchedule's candidates, possibly known ones; None if there are no more."""
        options = self._options
        before = sorted(
            (record for record in self._known.values() if record.order[0] < self.number),
            key=lambda record: record.order,
        )
        # XGBModel's guesses come from NumPy's global generator.
        np.random.seed(self._draw)
        model, generations = self._model(before)
        random_count = int(options.batch * RANDOM_SHARE)
        # Known candidates may be proposed again; they are skipped below.
        requested = options.batch + len(before)
        ctx = self._context(generations, (random_count + 0.5) / requested)
        ctx.pre_tuning(
            max_trials=MAX_TRIALS,
            num_trials_per_iter=requested,
            design_spaces=list(self._spaces),
            database=self._database(before),
            cost_model=model,
        )
        proposed = ctx.generate_measure_candidates()
        ctx.post_tuning()
        if proposed is None:
            return None
        # MetaSchedule's order: the most promising first, random ones last.
        fresh = _unknown(proposed, before)
        end = max(len(fresh) - random_count, 0)
        return fresh[:end][: options.batch - random_count] + fresh[end:]

    def learn(self, batch: Mapping[str, Any], known: Sequence[StoredRecord | None]) -> None:
        """Learn the results of a batch, by :func:`tvmake.tune.trace.trace_key`, and advance to the next batch."""
        features = self._features(list(batch.values()))
        for (key, candidate), stored, found in zip(batch.items(), known, features, strict=True):
            if stored is not None and stored.status != "device_lost":
                tuning = self._tuning_record(candidate, stored)
                self._known[key] = _Known(key, stored, ValidRecord(tuning, structure(candidate.sch.mod["main"]), found))
        self.number += 1

    @property
    def features(self) -> KernelFeatures | None:
        """Return the training data of this kernel for other kernels."""
        if self._options.cost_model == "random":
            return None
        return self._measured_features(list(self._known.values()))

    def _validate(
        self, stored: Mapping[str, StoredRecord], exclude: Callable[[Mapping[str, Refused]], None]
    ) -> dict[str, _Known]:
        options = self._options
        usable = [record for record in stored.values() if record.outcome != "wrong_output"]
        training = sample_records(usable, MAX_RECORDS, options.seed) if options.cost_model == "xgb" else []
        results = validate_records(
            self._workload, self._ctx, self._spaces, sort_by_latency(usable)[: options.population], training
        )
        exclude({digest: record for digest, record in results.items() if isinstance(record, Refused)})
        valid = {digest: record for digest, record in results.items() if isinstance(record, ValidRecord)}
        return {key: _Known(key, record, valid.get(record.digest)) for key, record in stored.items()}

    @property
    def _draw(self) -> int:
        text = f"{self._options.seed}:{self.number}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])

    def _context(self, generations: int, random_share: float) -> Any:
        from tvm.s_tir.meta_schedule.search_strategy import EvolutionarySearch

        population = self._options.population
        strategy = EvolutionarySearch(
            population_size=population,
            init_measured_ratio=FROM_MEASURED,
            init_min_unmeasured=min(UNMEASURED, population),
            genetic_num_iters=generations,
            eps_greedy=random_share,
        )
        return meta_schedule_context(self._workload, strategy, self._draw, self._target, self._threads)

    def _database(self, before: Sequence[_Known]) -> Any:
        """Return the best records, from which the population starts."""
        from tvm.s_tir import meta_schedule

        database = meta_schedule.database.MemoryDatabase()
        database.commit_workload(self._workload.module)
        seeds = {
            record.stored.digest: record.valid.tuning
            for record in before
            if record.valid and record.valid.tuning is not None
        }
        best = [
            record.digest for record in sort_by_latency(record.stored for record in before) if record.digest in seeds
        ]
        for digest in best[: int(self._options.population * FROM_MEASURED)]:
            database.commit_tuning_record(seeds[digest])
        return database

    def _model(self, before: Sequence[_Known]) -> tuple[Any, int]:
        """Return the cost model trained on the records before this batch, and the number of generations."""
        own_features = self._measured_features(before)
        training = [*self._transferred, *([own_features] if own_features else [])]
        model = cost_model(self._options.cost_model, self._threads, self._draw, training)
        if self._options.cost_model == "xgb" and sum(len(record.costs) for record in training) >= WARMUP:
            return model, GENERATIONS
        has_seeds = any(record.valid and record.valid.tuning is not None for record in before)
        return model, UNTRAINED_GENERATIONS if has_seeds else 0

    def _measured_features(self, known: Sequence[_Known]) -> KernelFeatures | None:
        features = {
            record.stored.digest: record.valid.features
            for record in known
            if record.valid and record.valid.features is not None
        }
        stored = [record.stored for record in known if record.stored.digest in features]
        return measured_features(
            self._workload,
            [(record, features[record.digest]) for record in sample_records(stored, MAX_RECORDS, self._options.seed)],
        )

    def _features(self, batch: Sequence[Any]) -> list[np.ndarray | None]:
        if self._options.cost_model == "random" or not batch:
            return [None] * len(batch)
        arrays = [
            features.numpy().astype("float32") for features in self._extractor.extract_from(self._ctx, list(batch))
        ]
        return [features if len(features) else None for features in arrays]

    def _tuning_record(self, candidate: Any, stored: StoredRecord) -> Any:
        from tvm.s_tir.meta_schedule.database import TuningRecord

        if stored.latency_ms is None:
            return None
        seconds = [float(sample) for sample in stored.samples_s]
        return TuningRecord(
            candidate.sch.trace, self._tvm_workload, seconds, self._ctx.target, list(candidate.args_info)
        )


def _next_batch(stored: Iterable[StoredRecord], size: int) -> int:
    numbers = [number for record in stored if (number := _batch(record)) is not None]
    if not numbers:
        return 0
    last = max(numbers)
    return last if numbers.count(last) < size else last + 1


def _batch(stored: StoredRecord) -> int | None:
    """Return the batch of a record; None if it was measured before the batches."""
    return None if stored.record.strategy in ORIGINS else stored.record.batch


def _unknown(proposed: Sequence[Any], before: Sequence[_Known]) -> list[Any]:
    """Select the proposals with new code, without duplicates."""
    codes = {record.valid.code for record in before if record.valid}
    keys = {record.key for record in before}
    fresh = []
    for candidate in proposed:
        code = structure(candidate.sch.mod["main"])
        if code not in codes and trace_key(candidate) not in keys:
            codes.add(code)
            fresh.append(candidate)
    return fresh
