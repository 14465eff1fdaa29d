"""What the cost model learnt from other kernels, kept as features, so that every job does not work it out again.

Reading the features of a candidate means replaying its trace and analysing the kernel: 20 ms. A job adds what it has
measured when it ends; a job that begins reads what others added. It is a cache: it can be deleted at any time.
"""

import os
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from platformdirs import user_cache_path

from tvmake.artifact.files import atomic_path
from tvmake.errors import MachineError
from tvmake.records.record import Place

MOST = 512
"""Candidates of other kernels to learn from: training on more takes longer than measuring a candidate."""


@dataclass(frozen=True)
class Lesson:
    """One kernel's measured candidates, as MetaSchedule's ``FeatureGroup`` holds them."""

    group: str
    """MetaSchedule's hash of the kernel."""
    features: list[np.ndarray]
    """Per candidate, float32 [stores, features]."""
    costs: np.ndarray
    """Per candidate its run time in seconds, float32 (1e10 for one that failed)."""


def lessons_root() -> Path:
    """``$TVMAKE_HOME/lessons``, or the user's cache directory."""
    home = os.environ.get("TVMAKE_HOME")
    return (Path(home) if home else user_cache_path("tvmake")) / "lessons"


def keep(place: Place, workload: str, lesson: Lesson) -> None:
    """Replace what is kept of a workload. Not being able to is no reason to fail: it is a cache."""
    path = _directory(place) / f"{workload}.npz"
    lengths = np.array([len(one) for one in lesson.features], np.int64)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as temporary:
            np.savez(
                temporary,
                group=np.array(lesson.group),
                features=np.concatenate(lesson.features),
                lengths=lengths,
                costs=lesson.costs,
            )
    except (OSError, MachineError):
        return


def recall(place: Place, without: str, seed: int) -> list[Lesson]:
    """Lessons of a place's other workloads, at most :data:`MOST` candidates drawn evenly over them."""
    files = sorted(path for path in _directory(place).glob("*.npz") if path.stem != without)
    draw = np.random.default_rng(seed)
    share = max(8, MOST // max(1, len(files)))
    if len(files) * share > MOST:
        files = [files[place] for place in sorted(draw.choice(len(files), MOST // share, replace=False))]
    found = (_read(path) for path in files)
    return [_some(lesson, share, draw) for lesson in found if lesson is not None]


def _directory(place: Place) -> Path:
    return lessons_root() / place.generation / place.digest


def _read(path: Path) -> Lesson | None:
    try:
        with np.load(path, allow_pickle=False) as file:
            ends = np.cumsum(file["lengths"])[:-1]
            features = [part.astype("float32") for part in np.split(file["features"], ends)]
            costs = file["costs"].astype("float32")
            group = str(file["group"])
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile):
        path.unlink(missing_ok=True)  # damaged; it will be written again
        return None
    return Lesson(group, features, costs) if len(features) == len(costs) > 0 else None


def _some(lesson: Lesson, count: int, draw: np.random.Generator) -> Lesson:
    if len(lesson.costs) <= count:
        return lesson
    chosen = draw.choice(len(lesson.costs), count, replace=False)
    # The best one gives the others their meaning: the model predicts best / cost.
    chosen[0] = int(np.argmin(lesson.costs))
    chosen = np.unique(chosen)
    return Lesson(lesson.group, [lesson.features[number] for number in chosen], lesson.costs[chosen])
