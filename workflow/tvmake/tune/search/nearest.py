"""Initial candidates from records of similar kernels, which differ only in extents.

A fast schedule of a convolution of 56×56 pixels is close to a fast one for 40×40. The decisions of the similar kernel's best
records are adopted; tilings are adapted to the nearest tiling of this kernel's extents.
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
"""Number of similar kernels, the nearest ones."""

RECORDS = 2
"""Number of fastest records of each."""

TILE = "SamplePerfectTile"

PATTERN, EXTENTS = "pattern", "extents"
"""Keys of a workload's description, for the search of similar kernels."""

FAILURE = "its decisions do not suit this kernel"

_NUMBER = re.compile(r'"[^"]*"|\d+')
"""A number outside of quotes; quoted are dtypes and names of blocks."""


@dataclass(frozen=True)
class Shape:
    """The properties that similar kernels share, and the extents in which they differ."""

    pattern: str
    """sha256 of the kernel's text without its numbers."""
    extents: tuple[int, ...]
    """Extents of its arguments, in order."""

    @classmethod
    def of(cls, workload: Workload) -> "Shape":
        """Return the shape of a kernel."""
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
        """Read the shape from a workload's description in a store; None if it is missing."""
        pattern, extents = (description or {}).get(PATTERN), (description or {}).get(EXTENTS)
        if not isinstance(pattern, str) or not isinstance(extents, list):
            return None
        return cls(pattern, tuple(extents)) if all(type(extent) is int and extent > 0 for extent in extents) else None

    @cached_property
    def description(self) -> dict[str, Any]:
        """Return the entries for the workload's description."""
        return {PATTERN: self.pattern, EXTENTS: list(self.extents)}

    def distance(self, other: "Shape") -> float:
        """Return the distance of two kernels of one pattern: the sum of logarithmic differences of their extents."""
        return sum(abs(math.log(a / b)) for a, b in zip(self.extents, other.extents, strict=True))


def nearest_starts(
    workload: Workload, store: RecordStore, context: TuningContext, spaces: Sequence[Any], tuning: Any
) -> Iterator[Start]:
    """Return the best schedules of the nearest kernels in a store, adapted to this kernel.

    Args:
        spaces: this kernel's design spaces; schedules that are not in one of them are left out.
    """
    light_intrinsics(workload.target)
    designs = [
        design
        for key in _nearest(workload, store, context)
        for design in designs_of(sort_by_latency(store.load(context, key)), spaces, RECORDS)
    ]
    seen = set()
    for answer in map_isolated(designs, lambda design: _adapt(workload, design, tuning), FAILURE):
        if not isinstance(answer, Refused) and answer not in seen:
            seen.add(answer)
            trace, kernel = json.loads(answer)
            yield Start("nearest", trace, tvm.ir.load_json(kernel))


def _nearest(workload: Workload, store: RecordStore, context: TuningContext) -> list[str]:
    shape = Shape.of(workload)
    candidates = []
    for key in store.workloads(context):
        similar = Shape.read(store.description(context, key)) if key != workload.key else None
        if similar and similar.pattern == shape.pattern and len(similar.extents) == len(shape.extents):
            candidates.append((shape.distance(similar), key))
    return [key for _, key in sorted(candidates)[:KERNELS]]


def _adapt(workload: Workload, design: Any, tuning: Any) -> bytes:
    """Return, in a fork, the trace and the kernel of an adapted design, with postprocessing, as JSON."""
    try:
        instructions, decisions = design
        schedule = _replay(workload, instructions, _tiles_of(workload, instructions, decisions))
        schedule.enter_postproc()
        for step in tuning.space_generator.postprocs:
            if not step.apply(schedule):
                raise Refused(FAILURE)
    except Refused:
        raise
    except Exception as error:  # any error of TVM for another kernel's decisions, as in replay
        raise Refused(FAILURE) from error
    return json.dumps([trace_json(schedule.trace), tvm.ir.save_json(schedule.mod["main"])]).encode()


def _tiles_of(workload: Workload, instructions: list[Any], decisions: list[Any]) -> list[Any]:
    """Adapt the tilings among the decisions to this kernel's extents, which TVM finds by drawing some."""
    is_tile = [instruction[0] == TILE for instruction in instructions]
    others = [[index, decision] for index, decision in decisions if not is_tile[index]]
    drawn = dict(trace_json(_replay(workload, instructions, others).trace)[1])
    return [
        [index, nearest_tile(math.prod(drawn[index]), decision) if is_tile[index] else decision]
        for index, decision in decisions
    ]


def _replay(workload: Workload, instructions: list[Any], decisions: list[Any]) -> Any:
    schedule = tvm.s_tir.Schedule(workload.module, seed=SEED, debug_mask="none", error_render_level="fast")
    with workload.target:
        tvm.s_tir.Trace.apply_json_to_schedule([instructions, decisions], schedule)
    return schedule


def nearest_tile(extent: int, tile: Sequence[int]) -> list[int]:
    """Return factors with the product ``extent``, each as near to the tile's factor as possible, from the innermost outwards."""
    factors = []
    for wanted in reversed(tile[1:]):
        divisors = [number for number in range(1, extent + 1) if extent % number == 0]
        chosen = min(divisors, key=lambda number: (abs(math.log(number / wanted)), number))
        factors.append(chosen)
        extent //= chosen
    return [extent, *reversed(factors)]


def _is_fixed(extent: Any) -> bool:
    return isinstance(extent, int | tvm.tirx.IntImm)
