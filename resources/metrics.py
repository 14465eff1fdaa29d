"""Metrics to copy: mean average precision, mean IoU, F1 and perplexity, with scikit-learn (``pip install scikit-learn``).

A metric takes samples and returns one number. It is called with the package's outputs and with the source model's.
A sample is one call of the model: ``inputs`` and ``outputs`` by their names in the source, ``labels`` [batch] or None, and
``truth``: the arrays of the dataset that ``dataset.truth`` names.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np


def f1(samples: Iterable[Any], output: str = "logits") -> float:
    """Macro-averaged F1 of a classifier.

    Args:
        output: class scores [batch, classes]; the samples have labels.
    """
    from sklearn.metrics import f1_score

    pairs = [(sample.labels, sample.outputs[output].argmax(axis=1)) for sample in samples]
    truth, predicted = (np.concatenate(side) for side in zip(*pairs, strict=True))
    return float(f1_score(truth, predicted, average="macro"))


def mean_iou(samples: Iterable[Any], output: str = "logits", masks: str = "masks", ignore: int = 255) -> float:
    """Mean intersection over union of a segmentation, over the classes that occur.

    Args:
        output: class scores [batch, classes, height, width].
        masks: the array of classes [batch, height, width].
        ignore: the class of pixels that are ignored.
    """
    from sklearn.metrics import confusion_matrix

    counts: Any = 0
    for sample in samples:
        scores, truth = sample.outputs[output], sample.truth[masks]
        counted = truth != ignore
        predicted = scores.argmax(axis=1)
        counts = counts + confusion_matrix(truth[counted], predicted[counted], labels=range(scores.shape[1]))
    union = counts.sum(axis=0) + counts.sum(axis=1) - counts.diagonal()
    return float((counts.diagonal()[union > 0] / union[union > 0]).mean())


def perplexity(samples: Iterable[Any], output: str = "logits", tokens: str = "input_ids") -> float:
    """Perplexity of a language model on its own input: the exponential of the mean negative log-likelihood of the next token.

    Args:
        output: scores [batch, length, vocabulary].
        tokens: the input with the tokens [batch, length].
    """
    from sklearn.metrics import log_loss

    total = count = 0.0
    for sample in samples:
        scores = sample.outputs[output][:, :-1].astype(np.float64)
        following = sample.inputs[tokens][:, 1:]
        likely = np.exp(scores - scores.max(axis=-1, keepdims=True))
        likely /= likely.sum(axis=-1, keepdims=True)
        vocabulary = likely.shape[-1]
        total += log_loss(following.ravel(), likely.reshape(-1, vocabulary), labels=range(vocabulary), normalize=False)
        count += following.size
    return float(np.exp(total / count))


def mean_average_precision(
    samples: Iterable[Any],
    boxes: str = "boxes",
    scores: str = "scores",
    classes: str = "classes",
    truth: str = "objects",
    overlap: float = 0.5,
) -> float:
    """Mean average precision of a detector, over the classes that occur; a box is correct if it overlaps an object of its class.

    Detections are matched to objects by descending score, each object once, as in PASCAL VOC; the area under the curve of
    precision and recall is summed in steps, as scikit-learn does. Missed objects lower the recall.

    Args:
        boxes: corners [batch, detections, 4] (x0, y0, x1, y1).
        scores: [batch, detections]; a negative score means no detection.
        classes: [batch, detections].
        truth: objects [batch, most, 5]: class, x0, y0, x1, y1; a negative class is padding.
        overlap: minimum intersection over union.
    """
    from sklearn.metrics import average_precision_score

    found: dict[int, list[tuple[float, bool]]] = {}
    there: dict[int, int] = {}
    for sample in samples:
        for row in range(len(sample.outputs[boxes])):
            objects = [entry for entry in sample.truth[truth][row] if entry[0] >= 0]
            for entry in objects:
                there[int(entry[0])] = there.get(int(entry[0]), 0) + 1
            detections = zip(
                sample.outputs[scores][row], sample.outputs[classes][row], sample.outputs[boxes][row], strict=True
            )
            for score, kind, is_right in _matched(detections, objects, overlap):
                found.setdefault(kind, []).append((score, is_right))
    precisions = []
    for kind, objects_there in there.items():
        ranked = found.get(kind, [])
        right = sum(is_right for _, is_right in ranked)
        if not right:
            precisions.append(0.0)
            continue
        precision = average_precision_score([is_right for _, is_right in ranked], [score for score, _ in ranked])
        precisions.append(precision * right / objects_there)
    return float(np.mean(precisions))


def _matched(detections: Iterable[Any], objects: list[Any], overlap: float) -> Iterator[tuple[float, int, bool]]:
    """Score, class and correctness of each detection, the best first."""
    free = list(objects)
    for score, kind, box in sorted(detections, key=lambda detection: -float(detection[0])):
        if score < 0:
            continue
        fitting = [(_iou(box, entry[1:]), index) for index, entry in enumerate(free) if int(entry[0]) == int(kind)]
        best, index = max(fitting, default=(0.0, -1))
        if best >= overlap:
            del free[index]
        yield float(score), int(kind), best >= overlap


def _iou(first: np.ndarray, second: np.ndarray) -> float:
    width, height = np.minimum(first[2:], second[2:]) - np.maximum(first[:2], second[:2])
    both = max(0.0, float(width)) * max(0.0, float(height))
    areas = sum(float((box[2] - box[0]) * (box[3] - box[1])) for box in (first, second))
    return both / (areas - both) if areas > both else 0.0
