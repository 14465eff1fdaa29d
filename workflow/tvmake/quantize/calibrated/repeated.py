"""One grid for what meets the same weight again and again: the steps of a recurrent network, levels that share a head.

Their kernels are the same ones then, and what goes with a weight, like its sums times a zero point, is held once.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from tvmake.artifact.calibration import TensorRange
from tvmake.quantize.calibrated.sites import Sites

MOST = 2.0
"""How many times as wide a range may become: a factor of two takes one of the 8 bits."""


def shared_ranges(sites: Sites, found: Sequence[TensorRange]) -> list[TensorRange]:
    """The ranges, one for all tensors that a weight is multiplied with, as far as they are about as wide."""
    number = {tensor: place for place, tensor in enumerate(sites.tensors)}
    leader = list(range(len(found)))

    def first(place: int) -> int:
        while leader[place] != place:
            place = leader[place]
        return place

    of_weight: dict[Any, int] = {}
    for product, origin in zip(sites.products, sites.origins, strict=True):
        one, other = sorted((first(number[origin]), first(of_weight.setdefault(product.args[1], number[origin]))))
        leader[other] = one
    alike: dict[int, list[int]] = defaultdict(list)
    for place in range(len(found)):
        alike[first(place)].append(place)
    result = list(found)
    for places in alike.values():
        rest = sorted(places, key=lambda place: _width(found[place]), reverse=True)
        while rest:
            least = _width(found[rest[0]]) / MOST
            near = [place for place in rest if _width(found[place]) >= least]
            rest = rest[len(near) :]
            bounds = {"low": min(found[one].low for one in near), "high": max(found[one].high for one in near)}
            for place in near:
                result[place] = found[place].model_copy(update=bounds)
    return result


def shared_shifts(sites: Sites, ranges: Sequence[TensorRange], shifts: Sequence[Sequence[float]]) -> list[list[float]]:
    """The mean of what is taken off the products of a weight with operands of the same range, for each of them."""
    number = {tensor: place for place, tensor in enumerate(sites.tensors)}
    keys = [
        (product.args[1], ranges[number[origin]].low, ranges[number[origin]].high)
        for product, origin in zip(sites.products, sites.origins, strict=True)
    ]
    together: dict[Any, list[Sequence[float]]] = defaultdict(list)
    for key, shift in zip(keys, shifts, strict=True):
        together[key].append(shift)
    means = {key: [float(np.float32(value)) for value in np.mean(some, axis=0)] for key, some in together.items()}
    return [means[key] for key in keys]


def _width(found: TensorRange) -> float:
    return max(0.0, found.high) - min(0.0, found.low)
