"""The cost model that predicts which candidates are worth measuring, trained on earlier measurements."""

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from tvmake.config.tuning import CostModel
from tvmake.errors import MachineError
from tvmake.records.store import StoredRecord
from tvmake.records.workload import Workload
from tvmake.tune.search.transfer import KernelFeatures

WARMUP = 32
"""Number of samples from which the model predicts. MetaSchedule waits for 100, which small budgets never reach."""

FAILED_S = 1e10
"""MetaSchedule's run time of a candidate that failed."""

MAX_RECORDS = 512
"""Maximum number of the kernel's records to train on: extracting features takes about 20 ms per record."""


def cost_model(kind: CostModel, threads: int, seed: int, features: Sequence[KernelFeatures]) -> Any:
    """Create a model by name, trained on the features of measured candidates.

    Raises:
        MachineError: xgboost is not installed.
    """
    from tvm.s_tir.meta_schedule import cost_model as models

    if kind == "random":
        return models.RandomModel(seed=seed)
    try:
        import xgboost  # noqa: F401
    except ImportError as error:
        raise MachineError(
            "tuning.cost_model", f"xgboost cannot be imported: {error}", "pip install xgboost-cpu, or use `random`"
        ) from error
    model = models.XGBModel(num_warmup_samples=WARMUP, num_tuning_cores=threads, verbose_eval=0)
    _train(model, features)
    return model


def _train(model: Any, features: Sequence[KernelFeatures]) -> None:
    """Train like ``XGBModel.update``."""
    from tvm.s_tir.meta_schedule.cost_model.xgb_model import FeatureGroup

    for kernel in features:
        model.data[kernel.group] = FeatureGroup(kernel.group, list(kernel.features), kernel.costs)
    model.data_size = sum(len(group.costs) for group in model.data.values())
    if model.data_size >= WARMUP:
        rows = [row for group in model.data.values() for row in group.features]
        scores = np.concatenate([group.min_cost / group.costs for group in model.data.values()])
        model._train(xs=rows, ys=scores)


def measured_features(workload: Workload, records: Sequence[tuple[StoredRecord, np.ndarray]]) -> KernelFeatures | None:
    """Return the training data of a kernel's records and their features (float32 [stores, features] each)."""
    from tvm.s_tir.meta_schedule.utils import shash2hex

    if not records:
        return None
    costs = [FAILED_S if stored.latency_ms is None else stored.latency_ms / 1e3 for stored, _ in records]
    return KernelFeatures(shash2hex(workload.module), [features for _, features in records], np.array(costs, "float32"))


def sample_records(records: Sequence[StoredRecord], count: int, seed: int) -> list[StoredRecord]:
    """Draw at most ``count`` records evenly, always including the best one."""
    if len(records) <= count:
        return list(records)
    best = min(records, key=lambda stored: stored.latency_ms or math.inf)
    drawn = random.Random(seed).sample(list(records), count)
    return drawn if best in drawn else [best, *drawn[1:]]
