"""Features of measured candidates, stored for the cost models of other kernels.

Extracting the features of a candidate means replaying its trace and analysing the kernel: 20 ms. A job adds its
measurements when it ends; a new job reads those of others. This is a cache and can be deleted at any time.
"""

import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tvmake.errors import MachineError
from tvmake.records.record import TuningContext
from tvmake.storage.directories import cache_directory
from tvmake.storage.files import atomic_path

MAX_CANDIDATES = 512
"""Maximum number of other kernels' candidates: training on more takes longer than measuring a candidate."""


@dataclass(frozen=True)
class KernelFeatures:
    """One kernel's measured candidates in the form of MetaSchedule's ``FeatureGroup``."""

    group: str
    """MetaSchedule's hash of the kernel."""
    features: list[np.ndarray]
    """Features of each candidate, float32 [stores, features]."""
    costs: np.ndarray
    """Run time of each candidate in seconds, float32 (1e10 for a failed one)."""


def transfer_root() -> Path:
    """``$TVMAKE_HOME/transfer``, or the user's cache directory."""
    return cache_directory("transfer")


def save(context: TuningContext, workload: str, features: KernelFeatures) -> None:
    """Replace the stored features of a workload. Failures are ignored, because this is a cache."""
    path = _directory(context) / f"{workload}.npz"
    lengths = np.array([len(array) for array in features.features], np.int64)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as temporary:
            np.savez(
                temporary,
                group=np.array(features.group),
                features=np.concatenate(features.features),
                lengths=lengths,
                costs=features.costs,
            )
    except (OSError, MachineError):
        return


def load(context: TuningContext, without: str, seed: int) -> list[KernelFeatures]:
    """Load features of a context's other workloads, at most :data:`MAX_CANDIDATES` candidates, evenly drawn."""
    files = sorted(path for path in _directory(context).glob("*.npz") if path.stem != without)
    draw = np.random.default_rng(seed)
    share = max(8, MAX_CANDIDATES // max(1, len(files)))
    if len(files) * share > MAX_CANDIDATES:
        files = [files[index] for index in sorted(draw.choice(len(files), MAX_CANDIDATES // share, replace=False))]
    groups = (_read(path) for path in files)
    return [_sample(features, share, draw) for features in groups if features is not None]


def _directory(context: TuningContext) -> Path:
    return transfer_root() / context.generation / context.digest


def _read(path: Path) -> KernelFeatures | None:
    try:
        with np.load(path, allow_pickle=False) as file:
            ends = np.cumsum(file["lengths"])[:-1]
            features = [part.astype("float32") for part in np.split(file["features"], ends)]
            costs = file["costs"].astype("float32")
            group = str(file["group"])
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile):
        path.unlink(missing_ok=True)  # damaged; will be rewritten
        return None
    return KernelFeatures(group, features, costs) if len(features) == len(costs) > 0 else None


def _sample(features: KernelFeatures, count: int, draw: np.random.Generator) -> KernelFeatures:
    if len(features.costs) <= count:
        return features
    chosen = draw.choice(len(features.costs), count, replace=False)
    # Keep the best one as the reference: the model predicts best / cost.
    chosen[0] = int(np.argmin(features.costs))
    chosen = np.unique(chosen)
    return KernelFeatures(features.group, [features.features[number] for number in chosen], features.costs[chosen])
