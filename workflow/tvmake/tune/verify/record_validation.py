"""Select stored records that are safe for MetaSchedule.

MetaSchedule replays the records of its database, and mutates their steps and decisions. It therefore gets only schedules
that it could have proposed itself, after they have been replayed in a fork. The fork also extracts the features for the
cost model. Repair: `damaged-traces`.
"""

import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import tvm

from tvmake.codegen.scheduling.light_intrinsics import light_intrinsics
from tvmake.codegen.scheduling.replay import FAILURE, ReplayError, replay
from tvmake.process.isolation import Refused, map_isolated
from tvmake.records.store import StoredRecord
from tvmake.records.workload import Workload, structure
from tvmake.storage.files import canonical_json
from tvmake.tune.trace import trace_json

PARALLEL = "meta_schedule.parallel"
"""An annotation that MetaSchedule mutates like a decision: the number of ways to run loops in parallel."""

NO_FEATURES = np.zeros((0, 0), "float32")

LARGEST = 1 << 20
"""Largest decision; tile sizes and numbers of alternatives are far below."""


@dataclass(frozen=True)
class ValidRecord:
    """A record whose trace is a schedule of this kernel."""

    tuning: Any | None
    """MetaSchedule's tuning record, if MetaSchedule could have proposed the schedule."""
    code: str
    """Structural hash of the scheduled kernel."""
    features: np.ndarray | None
    """Features for the cost model, float32 [stores, features]; None if not requested or missing."""


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
        fastest: working records, for MetaSchedule's population.
        training: records to train on, also failed ones.

    Returns:
        The valid record, or the reason for a refusal, by the record's digest.
    """
    light_intrinsics(workload.target)
    known = _shapes(spaces)
    designs = {stored.digest: _design(stored.record.trace, known) for stored in fastest}
    training_digests = {stored.digest for stored in training}
    every = {stored.digest: stored for stored in [*fastest, *training]}
    items = [_Item(stored, designs.get(digest), digest in training_digests) for digest, stored in every.items()]
    answers = map_isolated(items, lambda item: _replay_item(workload, context, item), FAILURE)
    found: dict[str, ValidRecord | Refused] = {}
    for item, answer in zip(items, answers, strict=True):
        found[item.stored.digest] = (
            answer if isinstance(answer, Refused) else _valid_record(workload, context, item, answer)
        )
    return found


def designs_of(records: Iterable[StoredRecord], spaces: Sequence[Any], count: int) -> list[Any]:
    """Return the traces, without postprocessing, of the first records whose schedules are in the design spaces."""
    known = _shapes(spaces)
    designs = (_design(stored.record.trace, known) for stored in records)
    return list(islice((design for design in designs if design is not None), count))


def tuning_record(workload: Workload, trace: Any, seconds: Sequence[float], target: "tvm.target.Target") -> Any:
    """Create the tuning record of a trace and its measurement for MetaSchedule's database; TVM replays the trace."""
    from tvm.s_tir import meta_schedule

    tvm_workload = meta_schedule.database.Workload(workload.module)
    line = [trace, list(seconds), json.loads(str(target)), None]
    return meta_schedule.database.TuningRecord.from_json(line, tvm_workload)


def _replay_item(workload: Workload, context: Any, item: _Item) -> bytes:
    """Replay a record in a fork, including all later uses; returns the hash and the features as an .npz file."""
    kernel = replay(workload, item.stored.record.trace)
    if item.design is not None:
        try:
            tuning_record(workload, item.design, item.stored.samples_s, context.target).as_measure_candidate()
        except Exception as error:  # any error of TVM for foreign data, as in replay
            raise ReplayError(FAILURE) from error
    features = _features(context, kernel) if item.is_training else NO_FEATURES
    file = io.BytesIO()
    np.savez(file, code=structure(kernel), features=features)
    return file.getvalue()


def _features(context: Any, kernel: "tvm.tirx.PrimFunc") -> np.ndarray:
    """Extract features for the cost model; empty for kernels whose packed weights end in zeros.

    Repair: `features-of-padded-weights`.
    """
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
    """Return the part of a trace that MetaSchedule chooses, without postprocessing; None for foreign traces."""
    try:
        instructions, decisions = trace
        names = [instruction[0] for instruction in instructions]
        end = names.index("EnterPostproc") if "EnterPostproc" in names else len(names)
        chosen = [[index, decision] for index, decision in decisions if index < end]
        if _shape(instructions[:end]) not in known:
            return None
        decided = dict(chosen)
        asks = [index for index, one in enumerate(instructions[:end]) if one[0].startswith("Sample")]
        right = sorted(decided) == asks and len(chosen) == len(asks)
        return [instructions[:end], chosen] if right and all(map(_is_decision, decided.values())) else None
    # Foreign data may have any structure.
    except (TypeError, ValueError, IndexError, KeyError, AttributeError):
        return None


def _is_decision(value: Any) -> bool:
    """Whether a value is tile sizes, or the number of an alternative or of a loop (-1: inlined, -2: at the root)."""
    if isinstance(value, list):
        return bool(value) and all(type(number) is int and 1 <= number <= LARGEST for number in value)
    return type(value) is int and -2 <= value <= LARGEST


def _shapes(spaces: Sequence[Any]) -> set[str]:
    return {_shape(trace_json(space.trace.simplified(True))[0]) for space in spaces}


def _shape(instructions: Sequence[Any]) -> str:
    """Return a trace's steps without the parts that MetaSchedule mutates."""
    return canonical_json([_without_choice(instruction) for instruction in instructions])


def _without_choice(instruction: Sequence[Any]) -> Any:
    kind, inputs, attributes, outputs = instruction
    if kind == "Annotate" and attributes == [PARALLEL] and type(inputs[1]) is int and 1 <= inputs[1] <= LARGEST:
        inputs = [inputs[0], "any"]
    return [kind, inputs, attributes, outputs]
