"""Matmuls in their own dtype.

Repair: `torch-matmul-dtype`.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx

from tvmake.frontend.torch.program import dtype_name

from tvm import relax  # isort: skip


def _product(node: fx.Node, importer: Any) -> Any:
    if node.meta["val"].dtype is torch.float32:
        return importer.create_convert_map()[node.target.__name__](node)
    left, right = (importer.env[operand] for operand in node.args[:2])
    return importer.block_builder.emit(relax.op.matmul(left, right, out_dtype=dtype_name(node)))


def _sum_with_product(node: fx.Node, importer: Any) -> Any:
    if node.meta["val"].dtype is torch.float32:
        return importer.create_convert_map()[node.target.__name__](node)
    dtype, op = dtype_name(node), relax.op
    bias, left, right = (importer.env[operand] for operand in node.args[:3])
    product = op.matmul(left, right, out_dtype=dtype)
    factors = [node.kwargs.get(name, 1) for name in ("alpha", "beta")]
    product, bias = (
        term if factor == 1 else op.multiply(term, relax.const(factor, dtype))
        for term, factor in zip((product, bias), factors, strict=True)
    )
    return importer.block_builder.emit(product if factors[1] == 0 else op.add(bias, product))


CONVERTERS: Mapping[str, Callable[[fx.Node, Any], Any]] = {
    "mm.default": _product,
    "_int_mm.default": _product,
    "bmm.default": _product,
    "matmul.default": _product,
    "addmm.default": _sum_with_product,
    "baddbmm.default": _sum_with_product,
}
"""By the operator's name."""
