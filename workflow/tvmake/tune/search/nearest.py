"""Starts from records of similar kernels: those that differ in extents only.

What made a convolution of 56×56 pixels fast is close to what makes one of 40×40 fast. The decisions of such a kernel's best records
are taken over; a tiling is the one of this kernel's extents that is nearest to theirs.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import tvm

from tvmake.codegen.scheduling.light_intrinsics import light_intrinsics
from tvmake.codegen.scheduling.replay import SEED
from tvmake.process.isolation import Refused, map_isolated
from tvmake.records.record import TuningContext
from tvmake.records.store import RecordStore
from tvmake.records.summary import sort_by_latency
from tvmake.records.workload import Workload
from tvmake.storage.files import digest_bytes
from tvmake.tune.search.starts import Start
from tvmake.tune.trace import trace_json
from tvmake.tune.verify.record_validation import designs_of

KERNELS = 4
"""Similar kernels that are looked at: the nearest."""

RECORDS = 2
"""Of each, how many of its fastest records."""

TILE = "SamplePerfectTile"

PATTERN, EXTENTS = "pattern", "extents"
"""What a workload's description holds for kernels that look for similar ones."""

FAILURE = "its decisions do not suit this kernel"

_NUMBER = re.compile(r'"[^"]*"|\d+')
"""A number outside of quotes; what is quoted are data types and names of blocks."""


@dataclass(frozen=True)
class Shape:
    """What a kernel has in common with similar ones, and what tells it from them."""

    pattern: str
    """sha256 of the kernel's text without its numbers."""
    extents: tuple[int, ...]
    """Of its arguments, in order."""

    @classmethod
    def of(cls, workload: Workload) -> "Shape":
        """A kernel's."""
        main = workload.module["main"]
        text = _NUMBER.sub(lambda found: found[0] if found[0].startswith('"') else "#", workload.module.script())
        extents = [
            int(extent)
            for parameter in main.params
            for extent in getattr(parameter.ty, "shape", ())
            if _is_fixed(extent)
        ]
        return cls(digest_bytes(text.encode()), tuple(extents))

    @classmethod
    def read(cls, description: Mapping[str, Any] | None) -> "Shape | None":
        """From a workload's description in a store; None where it does not say."""
        pattern, extents = (description or {}).get(PATTERN), (description or {}).get(EXTENTS)
        if not isinstance(pattern, str) or not isinstance(extents, list):
            return None
        return cls(pattern, tuple(extents)) if all(type(one) is int and one > 0 for one in extents) else None

    @cached_property
    def description(self) -> dict[str, Any]:
        """For the workload's description."""
        return {PATTERN: self.pattern, EXTENTS: list(self.extents)}

    def distance(self, other: "Shape") -> float:
        """How far apart two kernels of one pattern are: the sum of what their extents differ by, on a logarithmic scale."""
        return sum(abs(math.log(a / b)) for a, b in zip(self.extents, other.extents, strict=True))


def nearest_starts(
    workload: Workload, store: RecordStore, context: TuningContext, spaces: Sequence[Any], tuning: Any
) -> Iterator[Start]:
    """The best schedules of the nearest kernels in a store, on this kernel.

    Args:
        spaces: this kernel's design spaces; what is no schedule of one of them is left out.
        tuning: MetaSchedule's context of this kernel.
    """
    light_intrinsics(workload.target)
    designs = [
        design
        for key in _nearest(workload, store, context)
        for design in designs_of(sort_by_latency(store.load(context, key)), spaces, RECORDS)
    ]
    seen = set()
    for answer in map_isolated(designs, lambda design: _adapted(workload, design, tuning), FAILURE):
        if not isinstance(answer, Refused) and answer not in seen:
            seen.add(answer)
            trace, kernel = json.loads(answer)
            yield Start("nearest", trace, tvm.ir.load_json(kernel))


def _nearest(workload: Workload, store: RecordStore, context: TuningContext) -> list[str]:
    shape = Shape.of(workload)
    found = []
    for key in store.workloads(context):
        other = Shape.read(store.description(context, key)) if key != workload.key else None
        if other and other.pattern == shape.pattern and len(other.extents) == len(shape.extents):
            found.append((shape.distance(other), key))
    return [key for _, key in sorted(found)[:KERNELS]]


def _adapted(workload: Workload, design: Any, tuning: Any) -> bytes:
    """In a fork: the trace and the kernel of a design with this kernel's extents, postprocessing included, as JSON."""
    try:
        instructions, decisions = design
        schedule = _replayed(workload, instructions, _tiles_of(workload, instructions, decisions))
        schedule.enter_postproc()
        for step in tuning.space_generator.postprocs:
            if not step.apply(schedule):
                raise Refused(FAILURE)
    except Refused:
        raise
    except Exception as error:  # whatever TVM thinks of another kernel's decisions, as in replay
        raise Refused(FAILURE) from error
    return json.dumps([trace_json(schedule.trace), tvm.ir.save_json(schedule.mod["main"])]).encode()


def _tiles_of(workload: Workload, instructions: list[Any], decisions: list[Any]) -> list[Any]:
    """The decisions with tilings of this kernel's extents, which TVM finds out by drawing some."""
    is_tile = [instruction[0] == TILE for instruction in instructions]
    others = [[index, decision] for index, decision in decisions if not is_tile[index]]
    drawn = dict(trace_json(_replayed(workload, instructions, others).trace)[1])
    return [
        [index, nearest_tile(math.prod(drawn[index]), decision) if is_tile[index] else decision]
        for index, decision in decisions
    ]


def _replayed(workload: Workload, instructions: list[Any], decisions: list[Any]) -> Any:
    schedule = tvm.s_tir.Schedule(workload.module, seed=SEED, debug_mask="none", error_render_level="fast")
    with workload.target:
        tvm.s_tir.Trace.apply_json_to_schedule([instructions, decisions], schedule)
    return schedule


def nearest_tile(extent: int, tile: Sequence[int]) -> list[int]:
    """Factors whose product is ``extent``, each from the innermost outwards as near to the tile's as it can be."""
    factors = []
    for wanted in reversed(tile[1:]):
        divisors = [number for number in range(1, extent + 1) if extent % number == 0]
        chosen = min(divisors, key=lambda number: (abs(math.log(number / wanted)), number))
        factors.append(chosen)
        extent //= chosen
    return [extent, *reversed(factors)]


def _is_fixed(extent: Any) -> bool:
    return isinstance(extent, int | tvm.tirx.IntImm)
