"""What predicts which candidates are worth measuring, and teaching it what was measured before."""

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from tvmake.config.tuning import CostModel
from tvmake.errors import MachineError
from tvmake.records.store import StoredRecord
from tvmake.tune.lessons import Lesson
from tvmake.tune.workload import Workload

WARMUP = 32
"""Samples from which the model is asked at all. MetaSchedule waits for 100; with records of other kernels, or with the
small budgets of most kernels, that is never."""

OWN = 512
"""Records of the kernel itself to learn from at most: reading features off one takes about 20 ms."""


def cost_model(kind: CostModel, threads: int) -> Any:
    """A model by its name.

    Raises:
        MachineError: xgboost is not installed.
    """
    from tvm.s_tir.meta_schedule import cost_model as models

    if kind == "random":
        return models.RandomModel()
    try:
        import xgboost  # noqa: F401
    except ImportError as error:
        raise MachineError(
            "tuning.cost_model", f"xgboost cannot be imported: {error}", "pip install xgboost-cpu, or use `random`"
        ) from error
    return models.XGBModel(num_warmup_samples=WARMUP, num_tuning_cores=threads, verbose_eval=0, adaptive_training=False)


def learn(model: Any, lessons: Sequence[Lesson]) -> None:
    """Teach an XGBModel what was measured of other kernels, as its ``update`` does with candidates."""
    from tvm.s_tir.meta_schedule.cost_model.xgb_model import FeatureGroup

    for lesson in lessons:
        model.data[lesson.group] = FeatureGroup(lesson.group, list(lesson.features), lesson.costs)
    model.data_size = sum(len(group.costs) for group in model.data.values())
    if model.data_size:
        features = [one for group in model.data.values() for one in group.features]
        scores = np.concatenate([group.min_cost / group.costs for group in model.data.values()])
        model._train(xs=features, ys=scores)


def lesson_of(model: Any, workload: Workload) -> Lesson | None:
    """What a model has been shown of a kernel; None for models that do not learn from features."""
    from tvm.s_tir.meta_schedule.utils import shash2hex

    group = getattr(model, "data", {}).get(shash2hex(workload.module))
    return Lesson(group.group_hash, list(group.features), group.costs) if group is not None else None


def result(seconds: Sequence[float], error: str | None = None) -> Any:
    """MetaSchedule's form of a measurement."""
    from tvm.s_tir.meta_schedule.runner import RunnerResult

    return RunnerResult([float(second) for second in seconds] or None, error or (None if seconds else "failed"))


def some(records: Sequence[StoredRecord], count: int, seed: int) -> list[StoredRecord]:
    """At most ``count`` of the records, drawn evenly, the best one always among them."""
    if len(records) <= count:
        return list(records)
    best = min(records, key=lambda stored: stored.latency_ms or math.inf)
    drawn = random.Random(seed).sample(list(records), count)
    return drawn if best in drawn else [best, *drawn[1:]]
