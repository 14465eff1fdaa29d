"""Converters for integer operators that TVM's importer converts as floating-point ones, and fails on.

``pow`` with a tensor as the exponent, ``neg`` and ``sign`` of unsigned integers. Repair: `torch-integer-operators`.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx

from tvm import relax  # isort: skip


EXPONENT_BITS = 8
"""Bits of the exponent that matter: larger powers of bases other than 0 and ±1 overflow 64 bits."""


def _power(node: fx.Node, importer: Any) -> Any:
    """Exponentiation by squaring, one step for each bit of the exponent."""
    dtype = node.meta["val"].dtype
    if dtype.is_floating_point:
        return importer.create_convert_map()[node.target._name.partition("::")[2]](node)
    name, emit, op = str(dtype).removeprefix("torch."), importer.block_builder.emit, relax.op
    base, exponent = (
        op.astype(importer.env[value], name) if isinstance(value, fx.Node) else relax.const(value, name)
        for value in node.args
    )
    one, two = relax.const(1, name), relax.const(2, name)
    power, exponent = one, emit(exponent)
    for _ in range(EXPONENT_BITS):
        is_odd = op.equal(op.bitwise_and(exponent, one), one)
        power = emit(op.multiply(power, op.where(is_odd, base, one)))
        base, exponent = emit(op.multiply(base, base)), emit(op.floor_divide(exponent, two))
    return power


def _unsigned(compute: Callable[[Any, str], Any], name: str) -> Callable[[fx.Node, Any], Any]:
    def convert(node: fx.Node, importer: Any) -> Any:
        if node.meta["val"].dtype is not torch.uint8:
            return importer.create_convert_map()[name](node)
        return importer.block_builder.emit(compute(importer.env[node.args[0]], "uint8"))

    return convert


CONVERTERS: Mapping[str, Callable[[fx.Node, Any], Any]] = {
    "pow.Scalar": _power,
    "pow.Tensor_Tensor": _power,
    "neg.default": _unsigned(lambda data, name: relax.op.subtract(relax.const(0, name), data), "neg.default"),
    "sign.default": _unsigned(lambda data, name: relax.op.minimum(data, relax.const(1, name)), "sign.default"),
}
"""Converters by the operator's name."""
