"""The values with which the states of a package begin."""

from collections.abc import Mapping

import numpy as np

from tvmake.artifact.extents import evaluate_extent
from tvmake.artifact.signature import Signature, is_arithmetic
from tvmake.artifact.tensor_file import numpy_dtype


def initial_states(signature: Signature, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Zeros for each state, by name.

    Args:
        inputs: those of the first run, by name: a dynamic dimension has their size. One that no input has begins with its smallest
            size if it changes from run to run, as a cache's length does, and is 1 if not, as a batch.
    """
    smallest = {name: least for name, (least, _) in signature.bounds.items()}
    sizes: dict[str, int] = {}
    for spec in signature.inputs:
        extents = zip(spec.shape, inputs[spec.name].shape, strict=True)
        sizes |= {extent: size for extent, size in extents if isinstance(extent, str)}

    def size_of(extent: int | str, following: int | str) -> int:
        if isinstance(extent, int):
            return extent
        default = max(1, smallest.get(extent, 1)) if following == extent else smallest.get(extent, 0)
        if extent in sizes or not is_arithmetic(extent):
            return sizes.get(extent, default)
        return evaluate_extent(extent, lambda name: sizes.get(name, smallest.get(name, 0)))

    return {
        state.name: np.zeros(list(map(size_of, state.shape, state.next.shape)), numpy_dtype(state.dtype))
        for state in signature.states
    }
