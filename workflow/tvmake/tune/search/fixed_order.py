"""Candidates of MetaSchedule's random strategies, in an order that depends only on the seed."""

from collections.abc import Mapping, Sequence
from typing import Any

import tvm

from tvmake.config.requests.tuning import SearchOptions
from tvmake.records.store import StoredRecord
from tvmake.records.workload import Workload
from tvmake.tune.search.spaces import meta_schedule_context


class FixedOrder:
    """``replay-trace`` (also called ``random``) and ``replay-func``: measurements do not influence further candidates."""

    def __init__(
        self,
        workload: Workload,
        options: SearchOptions,
        spaces: Sequence[Any],
        target: "tvm.target.Target",
        threads: int,
    ):
        from tvm.s_tir.meta_schedule import search_strategy

        strategy = search_strategy.ReplayFunc() if options.strategy == "replay-func" else search_strategy.ReplayTrace()
        self.number = 0
        self._ctx = meta_schedule_context(workload, strategy, options.seed, target, threads)
        # MetaSchedule counts its proposals, including known candidates; tvmake's budget ends the search.
        self._ctx.pre_tuning(max_trials=1_000_000, num_trials_per_iter=options.batch, design_spaces=list(spaces))

    def propose(self) -> list[Any] | None:
        """See :class:`tvmake.tune.search.search.Source`."""
        batch = self._ctx.generate_measure_candidates()
        return None if batch is None else list(batch)

    def learn(self, batch: Mapping[str, Any], known: Sequence[StoredRecord | None]) -> None:
        """See :class:`tvmake.tune.search.search.Source`."""
        self.number += 1
        # It counts results, and does not use them otherwise.
        self._ctx.notify_runner_results(list(batch.values()), [])
