"""Converters for indexing with several tensors, as in NumPy, and for strided views.

PyTorch decomposes sliding windows (``x.unfold``) into strided views. Repair: `torch-indexing`.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from torch import fx
from torch.fx.experimental.symbolic_shapes import statically_known_true

from tvmake.frontend.lowering.dimension_values import extents_of, whole_number

from tvm import relax  # isort: skip


def _index(node: fx.Node, importer: Any) -> Any:
    data, arguments = node.args
    indexed = [axis for axis, index in enumerate(arguments) if index is not None]
    if len(indexed) == 1:
        return importer.create_convert_map()["index.Tensor"](node)
    emit = importer.block_builder.emit
    extents = extents_of(importer.env[data])
    others = [axis for axis in range(len(extents)) if axis not in indexed]
    indices = []
    for axis in indexed:
        index = emit(relax.op.astype(importer.env[arguments[axis]], "int64"))
        # Negative indices count from the end.
        from_end = relax.op.add(index, whole_number(extents[axis]))
        indices.append(emit(relax.op.where(relax.op.less(index, relax.const(0, "int64")), from_end, index)))
    # index_tensor indexes the first axes, and puts the selection first.
    moved = emit(relax.op.permute_dims(importer.env[data], [*indexed, *others]))
    selected = emit(relax.op.index_tensor(moved, indices))
    width = max(index.ty.ndim for index in indices)
    if not others or indexed != list(range(indexed[0], indexed[-1] + 1)):
        return selected
    # The selection replaces adjacent indexed axes.
    before = [width + number for number in range(indexed[0])]
    after = [width + number for number in range(indexed[0], len(others))]
    return emit(relax.op.permute_dims(selected, [*before, *range(width), *after]))


def _as_strided(node: fx.Node, importer: Any) -> Any:
    """Convert a strided view to a lookup of each element. Strides are those of the memory, whose order may differ."""
    value, result = node.args[0].meta["val"], node.meta["val"]
    if not all(isinstance(extent, int) for extent in (*value.shape, *result.shape, *result.stride())):
        if _is_whole_view(value, result):  # a pooled image, which PyTorch gives other strides for its extents of 1
            return importer.env[node.args[0]]
        raise ValueError("as_strided of dynamic dimensions: use slices, unfold or index_select instead")
    extents = [(tuple(map(int, tensor.shape)), tuple(map(int, tensor.stride()))) for tensor in (value, result)]
    source, view = (
        _offsets(shape, strides) + int(tensor.storage_offset())
        for (shape, strides), tensor in zip(extents, (value, result), strict=True)
    )
    indices = np.full(max(source.max(), view.max()) + 1, -1, np.int64)
    indices[source] = np.arange(source.size)
    if (indices[view] < 0).any():
        raise ValueError("as_strided reads outside of its operand")
    emit = importer.block_builder.emit
    flat = emit(relax.op.reshape(importer.env[node.args[0]], [source.size]))
    elements = emit(relax.op.take(flat, relax.const(indices[view]), axis=0))
    return emit(relax.op.reshape(elements, extents[1][0]))


def _is_whole_view(value: Any, result: Any) -> bool:
    """Whether a strided view has the elements of its operand in the operand's order, whatever the dynamic dimensions are."""
    is_known = statically_known_true
    if len(value.shape) != len(result.shape) or not is_known(value.storage_offset() == result.storage_offset()):
        return False
    return all(
        is_known(extent == wanted) and (is_known(extent == 1) or is_known(stride == other))
        for extent, wanted, stride, other in zip(
            value.shape, result.shape, value.stride(), result.stride(), strict=True
        )
    )


def _offsets(shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    """Offsets of a tensor's elements in its memory, in the order of their indices."""
    offsets = np.zeros(shape, np.int64)
    for axis, (extent, stride) in enumerate(zip(shape, strides, strict=True)):
        offsets += np.arange(extent).reshape([-1 if index == axis else 1 for index in range(len(shape))]) * stride
    return offsets.ravel()


CONVERTERS: Mapping[str, Callable[[fx.Node, Any], Any]] = {"index.Tensor": _index, "as_strided.default": _as_strided}
"""Converters by the operator's name."""
