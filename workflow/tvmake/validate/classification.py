"""Top-1 and top-5 figures of an output that looks like classification: floating point, [batch, classes]."""

from dataclasses import dataclass

import numpy as np
from pydantic import BaseModel, ConfigDict

from tvmake.storage.documents import FailsFast

TOP = 5
SOFTMAX_TOLERANCE = 1e-2


class ClassificationFigures(FailsFast, BaseModel):
    """Shares are of rows (0..1). Accuracies are None without labels, top-5 figures with five classes or fewer.

    ``top5_agreement`` is the mean overlap of the two sets of five highest-ranked classes. A row with NaN never agrees
    and is never accurate. ``looks_like_softmax`` means that every reference row is non-negative and sums to 1: a saturated
    softmax hides errors of the logits.
    """

    model_config = ConfigDict(extra="forbid")

    output: str
    rows: int
    classes: int
    top1_agreement: float
    top5_agreement: float | None
    labelled_rows: int
    top1: float | None
    top5: float | None
    reference_top1: float | None
    reference_top5: float | None
    looks_like_softmax: bool

    @property
    def top1_drop(self) -> float | None:
        """Accuracy the package loses against the reference; negative when it gains."""
        return None if self.top1 is None or self.reference_top1 is None else self.reference_top1 - self.top1


def is_classification(output: np.ndarray) -> bool:
    """Whether an output has the form [batch, classes] with at least two classes and is not integer."""
    return output.ndim == 2 and output.shape[1] >= 2 and output.dtype.kind not in "iub"


def top_classes(scores: np.ndarray, k: int) -> np.ndarray:
    """Indices of the ``k`` highest scores of each row, highest first; ties go to the lower index."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]


@dataclass
class Classification:
    """Accumulates the figures over samples."""

    output: str
    classes: int
    rows: int = 0
    agree1: int = 0
    agree5: float = 0.0
    labelled: int = 0
    got1: int = 0
    got5: int = 0
    reference1: int = 0
    reference5: int = 0
    softmax: bool = True

    def add(self, reference: np.ndarray, got: np.ndarray, labels: np.ndarray | None) -> None:
        """Add one sample: scores [batch, classes] of both sides, labels [batch] or None."""
        reference, got = np.asarray(reference, np.float64), np.asarray(got, np.float64)
        expected, actual = top_classes(reference, TOP), top_classes(got, TOP)
        usable_reference, usable_got = ~np.isnan(reference).any(axis=1), ~np.isnan(got).any(axis=1)
        usable = usable_reference & usable_got
        self.rows += len(reference)
        self.agree1 += int(np.count_nonzero((expected[:, 0] == actual[:, 0]) & usable))
        overlap = (expected[:, :, None] == actual[:, None, :]).any(axis=2).mean(axis=1)
        self.agree5 += float(overlap[usable].sum())
        self.softmax = self.softmax and _is_softmax(reference)
        if labels is not None:
            labelled = np.asarray(labels).reshape(-1, 1)
            self.labelled += len(labelled)
            self.got1 += _hits(actual[:, :1], labelled, usable_got)
            self.got5 += _hits(actual, labelled, usable_got)
            self.reference1 += _hits(expected[:, :1], labelled, usable_reference)
            self.reference5 += _hits(expected, labelled, usable_reference)

    def figures(self) -> ClassificationFigures:
        """The figures so far."""
        rows, labelled, has_top5 = max(self.rows, 1), max(self.labelled, 1), self.classes > TOP
        return ClassificationFigures(
            output=self.output,
            rows=self.rows,
            classes=self.classes,
            top1_agreement=self.agree1 / rows,
            top5_agreement=self.agree5 / rows if has_top5 else None,
            labelled_rows=self.labelled,
            top1=self.got1 / labelled if self.labelled else None,
            top5=self.got5 / labelled if self.labelled and has_top5 else None,
            reference_top1=self.reference1 / labelled if self.labelled else None,
            reference_top5=self.reference5 / labelled if self.labelled and has_top5 else None,
            looks_like_softmax=self.softmax and self.rows > 0,
        )


def _hits(classes: np.ndarray, labels: np.ndarray, usable: np.ndarray) -> int:
    return int(np.count_nonzero((classes == labels).any(axis=1) & usable))


def _is_softmax(scores: np.ndarray) -> bool:
    if not np.isfinite(scores).all():
        return False
    return bool((scores >= 0).all() and np.allclose(scores.sum(axis=1), 1.0, atol=SOFTMAX_TOLERANCE))
