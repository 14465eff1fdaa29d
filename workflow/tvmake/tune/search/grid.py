"""Every candidate of a small space, in a fixed order."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tvm

from tvmake.errors import InputError
from tvmake.records.store import StoredRecord

LARGEST = 20_000
"""Maximum number of combinations of decisions; most of them are invalid schedules."""

NEWEST_LOCATION = 8
"""Positions of a movable block: -2 (inline), -1 (stay), and loops from the outside."""


class Grid:
    """Enumerate all decisions of all design spaces."""

    def __init__(self, ctx: Any, spaces: Sequence[Any], batch: int):
        self.number = 0
        self.batch = batch
        self.ctx = ctx
        sizes = [_size(space) for space in spaces]
        if sum(sizes) > LARGEST:
            raise InputError(
                "tuning.strategy",
                f"a grid over this kernel has {sum(sizes):.3g} points (at most {LARGEST} are tried)",
                "use `random` or `evolutionary`",
            )
        self.points = itertools.chain.from_iterable(_points(space) for space in spaces)

    def propose(self) -> list[Any] | None:
        """See :class:`tvmake.tune.search.search.Source`; all candidates are valid."""
        batch: list[Any] = []
        for trace in self.points:
            if (candidate := self._candidate(trace)) is not None:
                batch.append(candidate)
                if len(batch) == self.batch:
                    break
        return batch or None

    def learn(self, batch: Mapping[str, Any], known: Sequence[StoredRecord | None]) -> None:
        """See :class:`tvmake.tune.search.search.Source`; a grid does not learn."""
        self.number += 1

    def _candidate(self, trace: Any) -> Any:
        from tvm.s_tir.meta_schedule.arg_info import ArgInfo
        from tvm.s_tir.meta_schedule.search_strategy import MeasureCandidate

        schedule = tvm.s_tir.Schedule(self.ctx.mod, seed=1, debug_mask=0)
        try:
            trace.apply_to_schedule(schedule, remove_postproc=True)
            schedule.enter_postproc()
            for post in self.ctx.space_generator.postprocs:
                if not post.apply(schedule):
                    return None
        except (tvm.error.InternalError, RuntimeError, ValueError, tvm.s_tir.ScheduleError):
            return None  # not a valid schedule
        return MeasureCandidate(schedule, ArgInfo.from_entry_func(schedule.mod, remove_preproc=True))


def _points(space: Any) -> Iterator[Any]:
    trace = space.trace
    sampled = [instruction for instruction in trace.insts if instruction in trace.decisions]
    for combination in itertools.product(
        *(_choices(instruction, trace.decisions[instruction]) for instruction in sampled)
    ):
        point = trace
        for instruction, decision in zip(sampled, combination, strict=True):
            point = point.with_decision(instruction, decision, remove_postproc=True)
        yield point


def _size(space: Any) -> int:
    size = 1
    for instruction in space.trace.insts:
        if instruction in space.trace.decisions:
            size *= max(1, len(_choices(instruction, space.trace.decisions[instruction])))
            if size > LARGEST:
                break
    return size


def _choices(instruction: Any, decision: Any) -> list[Any]:
    name = instruction.kind.name
    if name in ("SamplePerfectTile", "SamplePartitionedTile"):
        factors = [int(factor) for factor in decision]
        extent = 1
        for factor in factors:
            extent *= factor
        innermost = int(instruction.attrs[1]) if name == "SamplePerfectTile" else extent
        return [tiles for tiles in _factorisations(extent, len(factors)) if tiles[-1] <= innermost]
    if name == "SampleCategorical":
        return list(range(len(instruction.attrs[0])))
    return list(range(-2, NEWEST_LOCATION))


def _factorisations(extent: int, parts: int) -> list[list[int]]:
    if parts == 1:
        return [[extent]]
    return [
        [first, *rest]
        for first in range(1, extent + 1)
        if extent % first == 0
        for rest in _factorisations(extent // first, parts - 1)
    ]
