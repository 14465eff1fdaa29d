"""Stored records that are safe for MetaSchedule.

MetaSchedule replays what its database holds, and changes its steps and decisions to find better ones. So it gets only schedules
that it could have proposed itself, after they have been replayed in a fork. What the cost model learns
from is read off in the fork as well. Repair: `damaged-traces`.
"""

import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import tvm

from tvmake.codegen.scheduling.isolated_replay import FAILURE
from tvmake.codegen.scheduling.light_intrinsics import light_intrinsics
from tvmake.codegen.scheduling.replay import ReplayError, replay
from tvmake.process.isolation import Refused, map_isolated
from tvmake.records.store import StoredRecord
from tvmake.records.workload import Workload, structure
from tvmake.storage.files import canonical_json
from tvmake.tune.trace import trace_json

PARALLEL = "meta_schedule.parallel"
"""An annotation that MetaSchedule changes as if it were a decision: how many ways to run loops in parallel."""

NO_FEATURES = np.zeros((0, 0), "float32")

LARGEST = 1 << 20
"""For one decision; tile sizes and numbers of alternatives are far below."""


@dataclass(frozen=True)
class ValidRecord:
    """A record whose trace is a schedule of this kernel."""

    tuning: Any | None
    """MetaSchedule's tuning record, of a schedule that it could have proposed."""
    code: str
    """Structural hash of the scheduled kernel."""
    features: np.ndarray | None
    """What the cost model learns from, float32 [stores, features]; None where they were not wanted, or there are none."""


@dataclass(frozen=True)
class _Item:
    """A record to replay."""

    stored: StoredRecord
    design: Any
    """Its trace without postprocessing, if it is for MetaSchedule's population."""
    is_training: bool


def validate_records(
    workload: Workload,
    context: Any,
    spaces: Sequence[Any],
    fastest: Sequence[StoredRecord],
    training: Sequence[StoredRecord],
) -> dict[str, ValidRecord | Refused]:
    """Replay records of a kernel.

    Args:
        context: MetaSchedule's, of this kernel.
        spaces: its design spaces.
        fastest: records that worked, for MetaSchedule's population.
        training: records to train on; failed ones count too.

    Returns:
        By the record's digest what it gives, or why its trace is no schedule of this kernel.
    """
    light_intrinsics(workload.target)
    known = _shapes(spaces)
    designs = {one.digest: _design(one.record.trace, known) for one in fastest}
    training_digests = {one.digest for one in training}
    every = {one.digest: one for one in [*fastest, *training]}
    items = [_Item(one, designs.get(digest), digest in training_digests) for digest, one in every.items()]
    answers = map_isolated(items, lambda one: _replayed(workload, context, one), FAILURE)
    found: dict[str, ValidRecord | Refused] = {}
    for one, answer in zip(items, answers, strict=True):
        found[one.stored.digest] = (
            answer if isinstance(answer, Refused) else _valid_record(workload, context, one, answer)
        )
    return found


def designs_of(records: Iterable[StoredRecord], spaces: Sequence[Any], count: int) -> list[Any]:
    """The traces, without postprocessing, of the first records whose schedules MetaSchedule could have chosen from spaces.

    Args:
        count: how many, at most.
    """
    known = _shapes(spaces)
    designs = (_design(one.record.trace, known) for one in records)
    return list(islice((design for design in designs if design is not None), count))


def tuning_record(workload: Workload, trace: Any, seconds: Sequence[float], target: "tvm.target.Target") -> Any:
    """A trace and its measurement as MetaSchedule's database keeps them; TVM replays the trace."""
    from tvm.s_tir import meta_schedule

    tvm_workload = meta_schedule.database.Workload(workload.module)
    line = [trace, list(seconds), json.loads(str(target)), None]
    return meta_schedule.database.TuningRecord.from_json(line, tvm_workload)


def _replayed(workload: Workload, context: Any, item: _Item) -> bytes:
    """In the fork: everything that is done with the record later; the hash and the features, as an .npz file."""
    kernel = replay(workload, item.stored.record.trace)
    if item.design is not None:
        try:
            tuning_record(workload, item.design, item.stored.samples_s, context.target).as_measure_candidate()
        except Exception as error:  # whatever TVM thinks of foreign data, as in replay
            raise ReplayError(FAILURE) from error
    features = _features(context, kernel) if item.is_training else NO_FEATURES
    file = io.BytesIO()
    np.savez(file, code=structure(kernel), features=features)
    return file.getvalue()


def _features(context: Any, kernel: "tvm.tirx.PrimFunc") -> np.ndarray:
    """What the cost model learns from; nothing of kernels whose packed weights end in zeros. Repair: `features-of-padded-weights`."""
    from tvm.s_tir import meta_schedule

    schedule = tvm.s_tir.Schedule(tvm.IRModule({"main": kernel}))
    extractor = meta_schedule.feature_extractor.PerStoreFeature()
    try:
        (found,) = extractor.extract_from(context, [meta_schedule.MeasureCandidate(schedule, [])])
    except RuntimeError:
        return NO_FEATURES
    return np.asarray(found.numpy(), "float32")


def _valid_record(workload: Workload, context: Any, item: _Item, answer: bytes) -> ValidRecord:
    with np.load(io.BytesIO(answer), allow_pickle=False) as read:
        code, features = str(read["code"]), read["features"]
    tuning = None
    if item.design is not None:
        tuning = tuning_record(workload, item.design, item.stored.samples_s, context.target)
    return ValidRecord(tuning, code, features if len(features) else None)


def _design(trace: Any, known: set[str]) -> Any:
    """A trace's part that MetaSchedule chooses, without postprocessing; None if it is not one of its own."""
    try:
        instructions, decisions = trace
        names = [one[0] for one in instructions]
        end = names.index("EnterPostproc") if "EnterPostproc" in names else len(names)
        chosen = [[index, decision] for index, decision in decisions if index < end]
        if _shape(instructions[:end]) not in known:
            return None
        decided = dict(chosen)
        asks = [index for index, one in enumerate(instructions[:end]) if one[0].startswith("Sample")]
        right = sorted(decided) == asks and len(chosen) == len(asks)
        return [instructions[:end], chosen] if right and all(map(_is_decision, decided.values())) else None
    # Foreign data may have any form.
    except (TypeError, ValueError, IndexError, KeyError, AttributeError):
        return None


def _is_decision(value: Any) -> bool:
    """Tile sizes, or the number of an alternative or of a loop (-1: inlined, -2: at the root)."""
    if isinstance(value, list):
        return bool(value) and all(type(one) is int and 1 <= one <= LARGEST for one in value)
    return type(value) is int and -2 <= value <= LARGEST


def _shapes(spaces: Sequence[Any]) -> set[str]:
    return {_shape(trace_json(space.trace.simplified(True))[0]) for space in spaces}


def _shape(instructions: Sequence[Any]) -> str:
    """A trace's steps, without what MetaSchedule itself changes in them."""
    return canonical_json([_without_choice(one) for one in instructions])


def _without_choice(instruction: Sequence[Any]) -> Any:
    kind, inputs, attributes, outputs = instruction
    if kind == "Annotate" and attributes == [PARALLEL] and type(inputs[1]) is int and 1 <= inputs[1] <= LARGEST:
        inputs = [inputs[0], "any"]
    return [kind, inputs, attributes, outputs]
