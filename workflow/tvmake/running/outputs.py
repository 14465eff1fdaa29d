"""The results of a run: figures of each output, and the classes with the highest scores."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile, ZipFile

import numpy as np

from tvmake.artifact.signature import TensorSpec
from tvmake.errors import InputError, MachineError
from tvmake.process.output import counted
from tvmake.storage.files import atomic_path, writing
from tvmake.storage.plain_files import read_plain

MOST_LABELS_BYTES = 16 << 20


class Score(NamedTuple):
    """The score of a class for one sample."""

    sample: int
    class_index: int
    """The class's index, from 0."""
    label: str
    score: float | None
    """None if the score is not finite."""


def summary(name: str, array: np.ndarray) -> dict[str, object]:
    """Shape, type, range and mean of an output, and the number of NaN values."""
    values = array.astype(np.float64) if array.dtype.kind not in "b" else array.astype(np.int8)
    finite = values[np.isfinite(values)]
    ends = {"min": float(finite.min()), "mean": float(finite.mean()), "max": float(finite.max())} if finite.size else {}
    return {
        "output": name,
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        **ends,
        "not_finite": int(values.size - finite.size),
    }


MOST_ROWS = 16
"""Of scores of an output: an image has thousands, and is nothing to read."""


def row_count(array: np.ndarray) -> int:
    """The number of rows of scores, along the last axis."""
    return math.prod(array.shape[:-1])


def top_scores(array: np.ndarray, count: int, labels: Sequence[str]) -> list[Score]:
    """The classes with the highest scores, for each of the first :data:`MOST_ROWS` rows along the last axis.

    Raises:
        InputError: there are fewer labels than classes.
    """
    rows = (
        np.asarray(array, np.float64).reshape(row_count(array), array.shape[-1])
        if array.ndim
        else np.asarray([[array]])
    )
    if labels and len(labels) < rows.shape[1]:
        raise InputError("labels", f"{len(labels)} labels for {rows.shape[1]} classes", "write one per line")
    scores = []
    for sample, row in enumerate(rows[:MOST_ROWS]):
        order = np.argsort(-np.nan_to_num(row, nan=-np.inf), kind="stable")[:count]
        for index in order:
            score = float(row[index]) if np.isfinite(row[index]) else None
            scores.append(Score(sample, int(index), labels[index] if labels else "", score))
    return scores


def read_labels(file: Path) -> list[str]:
    """The names of classes, one per line.

    Raises:
        InputError: the file is missing or not text.
    """
    try:
        lines = read_plain(file, MOST_LABELS_BYTES, "list of labels").decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise InputError(str(file), "is not a text file", "write the names of the classes, one per line") from None
    except FileNotFoundError:
        raise InputError(str(file), "no such file", "write the names of the classes, one per line") from None
    return [line.strip() for line in lines if line.strip()]


def check_labels(labels: Sequence[str], file: Path, outputs: Sequence[TensorSpec]) -> None:
    """Refuse, before the run, labels that do not cover an output's classes.

    Raises:
        InputError: there are fewer labels than classes.
    """
    for spec in outputs:
        classes = spec.shape[-1] if spec.shape else 1
        if isinstance(classes, int) and len(labels) < classes:
            problem = f"has {counted(len(labels), 'label')} for the {classes} classes of '{spec.name}'"
            raise InputError(str(file), problem, "write one per line")


def is_outputs(file: Path) -> bool:
    """Whether a file is an ``.npz``."""
    try:
        with ZipFile(file) as archive:
            return all(name.endswith(".npy") for name in archive.namelist())
    except (OSError, BadZipFile):
        return False


def write_outputs(outputs: Mapping[str, np.ndarray], file: Path) -> None:
    """Write outputs as an ``.npz`` that ``numpy.load`` opens, by their names.

    Raises:
        MachineError: it cannot be written there.
    """
    try:
        with writing(file), atomic_path(file) as temporary, temporary.open("wb") as stream:
            np.savez(stream, allow_pickle=False, **dict(outputs))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise MachineError(str(file), f"cannot be written: {reason}", "name a file elsewhere") from None
