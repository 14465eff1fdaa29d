"""Reinterpret the bits of values as another type of the same width."""

from typing import Any

from tvm import te, tirx  # isort: skip


def bitcast(builder: Any, values: Any, dtype: str, kernel: str = "bit_cast") -> Any:
    """A tensor with the same bits and another dtype.

    Args:
        builder: emits the kernel.
        values: a tensor of any shape.
        dtype: of the result, of the same width.
        kernel: the kernel's name.
    """

    def bits(tensor: Any) -> Any:
        return te.compute(tensor.shape, lambda *index: tirx.reinterpret(dtype, tensor(*index)), name="bits")

    return builder.emit_te(bits, values, primfunc_name_hint=kernel)
