"""Index with several tensors at once, as NumPy and PyTorch define it, and views by strides.

Views by strides are those into which PyTorch decomposes sliding windows (``x.unfold``). Repair: `torch-indexing`.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from torch import fx

from tvmake.frontend.lowering.dimension_values import extents_of, whole_number

from tvm import relax  # isort: skip


def _index(node: fx.Node, importer: Any) -> Any:
    data, given = node.args
    places = [axis for axis, index in enumerate(given) if index is not None]
    if len(places) == 1:
        return importer.create_convert_map()["index.Tensor"](node)
    emit = importer.block_builder.emit
    extents = extents_of(importer.env[data])
    others = [axis for axis in range(len(extents)) if axis not in places]
    indices = []
    for axis in places:
        index = emit(relax.op.astype(importer.env[given[axis]], "int64"))
        # Counted from the end where negative.
        from_end = relax.op.add(index, whole_number(extents[axis]))
        indices.append(emit(relax.op.where(relax.op.less(index, relax.const(0, "int64")), from_end, index)))
    # The indexed axes first, then what they select first as well.
    moved = emit(relax.op.permute_dims(importer.env[data], [*places, *others]))
    selected = emit(relax.op.index_tensor(moved, indices))
    width = max(index.ty.ndim for index in indices)
    if not others or places != list(range(places[0], places[-1] + 1)):
        return selected
    # Where the indexed axes stand side by side, what they select stands in their place.
    before = [width + number for number in range(places[0])]
    after = [width + number for number in range(places[0], len(others))]
    return emit(relax.op.permute_dims(selected, [*before, *range(width), *after]))


def _as_strided(node: fx.Node, importer: Any) -> Any:
    """Look up each element of the view: the strides count in the memory of a tensor, which may not be in its own order."""
    value, result = node.args[0].meta["val"], node.meta["val"]
    if not all(isinstance(extent, int) for extent in (*value.shape, *result.shape, *result.stride())):
        raise ValueError("as_strided of dynamic dimensions: take slices, unfold or index_select instead")
    extents = [(tuple(map(int, one.shape)), tuple(map(int, one.stride()))) for one in (value, result)]
    memory, wanted = (
        _offsets(shape, strides) + int(one.storage_offset())
        for (shape, strides), one in zip(extents, (value, result), strict=True)
    )
    places = np.full(max(memory.max(), wanted.max()) + 1, -1, np.int64)
    places[memory] = np.arange(memory.size)
    if (places[wanted] < 0).any():
        raise ValueError("as_strided reads what is outside of its operand")
    emit = importer.block_builder.emit
    flat = emit(relax.op.reshape(importer.env[node.args[0]], [memory.size]))
    taken = emit(relax.op.take(flat, relax.const(places[wanted]), axis=0))
    return emit(relax.op.reshape(taken, extents[1][0]))


def _offsets(shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    """Where the elements of a tensor lie in its memory, in the order of their indices."""
    found = np.zeros(shape, np.int64)
    for axis, (extent, stride) in enumerate(zip(shape, strides, strict=True)):
        found += np.arange(extent).reshape([-1 if other == axis else 1 for other in range(len(shape))]) * stride
    return found.ravel()


CONVERTERS: Mapping[str, Callable[[fx.Node, Any], Any]] = {"index.Tensor": _index, "as_strided.default": _as_strided}
"""By the operator's name."""
