"""Convert matmuls with their own result dtype.

Repair: `torch-matmul-dtype`.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx

from tvmake.frontend.torch.program import dtype_name

from tvm import relax  # isort: skip


def _matmul(node: fx.Node, importer: Any) -> Any:
    if node.meta["val"].dtype is torch.float32:
        return importer.create_convert_map()[node.target.__name__](node)
    left, right = (importer.env[operand] for operand in node.args[:2])
    return importer.block_builder.emit(relax.op.matmul(left, right, out_dtype=dtype_name(node)))


def _matmul_add(node: fx.Node, importer: Any) -> Any:
    if node.meta["val"].dtype is torch.float32:
        return importer.create_convert_map()[node.target.__name__](node)
    dtype, op = dtype_name(node), relax.op
    bias, left, right = (importer.env[operand] for operand in node.args[:3])
    matmul = op.matmul(left, right, out_dtype=dtype)
    factors = [node.kwargs.get(name, 1) for name in ("alpha", "beta")]
    matmul, bias = (
        term if factor == 1 else op.multiply(term, relax.const(factor, dtype))
        for term, factor in zip((matmul, bias), factors, strict=True)
    )
    return importer.block_builder.emit(matmul if factors[1] == 0 else op.add(bias, matmul))


CONVERTERS: Mapping[str, Callable[[fx.Node, Any], Any]] = {
    "mm.default": _matmul,
    "_int_mm.default": _matmul,
    "bmm.default": _matmul,
    "matmul.default": _matmul,
    "addmm.default": _matmul_add,
    "baddbmm.default": _matmul_add,
}
"""Converters by the operator's name."""
