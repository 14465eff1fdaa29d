"""Operators that TVM's importer for ONNX lacks and that no other operators can be put in the place of."""

from collections.abc import Callable, Mapping
from typing import Any

from onnx import helper

from tvm import relax, te, tirx  # isort: skip


def _bit_cast(builder: Any, inputs: Any, attributes: Mapping[str, Any]) -> Any:
    """The same bits as another type of the same width; truths are bytes of 0 and 1."""
    data = inputs[0]
    dtype = helper.tensor_dtype_to_np_dtype(attributes["to"]).name
    if "bool" in (dtype, str(data.ty.dtype.dtype)):
        return relax.op.astype(relax.op.astype(data, "uint8"), dtype)

    def bits(values: Any) -> Any:
        return te.compute(values.shape, lambda *at: tirx.reinterpret(dtype, values(*at)), name="bits")

    return builder.emit_te(bits, data, primfunc_name_hint="bit_cast")


CONVERTERS: Mapping[str, Callable[[Any, Any, Mapping[str, Any]], Any]] = {"BitCast": _bit_cast}
"""By the operator's name."""
