"""Share one grid between the operands of a weight: steps of a recurrent network, feature levels with a shared head.

Their kernels are then identical, and constants of the weight, such as its sums times the zero point, are stored once.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from tvmake.artifact.calibration import TensorRange
from tvmake.quantize.calibrated.sites import Sites

MOST = 2.0
"""Largest factor by which a shared range may be wider than a tensor's own: a factor of two costs one of the 8 bits."""


def shared_ranges(sites: Sites, ranges: Sequence[TensorRange]) -> list[TensorRange]:
    """Merge the ranges of all tensors that are multiplied with one weight, if their widths are similar."""
    number = {tensor: index for index, tensor in enumerate(sites.tensors)}
    parent = list(range(len(ranges)))

    def root(index: int) -> int:
        while parent[index] != index:
            index = parent[index]
        return index

    tensor_of_weight: dict[Any, int] = {}
    for product, origin in zip(sites.products, sites.origins, strict=True):
        earlier = tensor_of_weight.setdefault(product.args[1], number[origin])
        first, second = sorted((root(number[origin]), root(earlier)))
        parent[second] = first
    groups: dict[int, list[int]] = defaultdict(list)
    for index in range(len(ranges)):
        groups[root(index)].append(index)
    result = list(ranges)
    for group in groups.values():
        rest = sorted(group, key=lambda index: _width(ranges[index]), reverse=True)
        while rest:
            least = _width(ranges[rest[0]]) / MOST
            near = [index for index in rest if _width(ranges[index]) >= least]
            rest = rest[len(near) :]
            bounds = {
                "low": min(ranges[index].low for index in near),
                "high": max(ranges[index].high for index in near),
            }
            for index in near:
                result[index] = ranges[index].model_copy(update=bounds)
    return result


def shared_shifts(sites: Sites, ranges: Sequence[TensorRange], shifts: Sequence[Sequence[float]]) -> list[list[float]]:
    """Replace the shifts of all products of a weight with operands of one range by their mean."""
    number = {tensor: index for index, tensor in enumerate(sites.tensors)}
    keys = [
        (product.args[1], ranges[number[origin]].low, ranges[number[origin]].high)
        for product, origin in zip(sites.products, sites.origins, strict=True)
    ]
    groups: dict[Any, list[Sequence[float]]] = defaultdict(list)
    for key, shift in zip(keys, shifts, strict=True):
        groups[key].append(shift)
    means = {key: [float(np.float32(value)) for value in np.mean(group, axis=0)] for key, group in groups.items()}
    return [means[key] for key in keys]


def _width(covered: TensorRange) -> float:
    return max(0.0, covered.high) - min(0.0, covered.low)
