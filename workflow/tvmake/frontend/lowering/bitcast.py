"""Values by their bits, as another type of the same width."""

from typing import Any

from tvm import te, tirx  # isort: skip


def bitcast(builder: Any, values: Any, dtype: str, kernel: str = "bit_cast") -> Any:
    """A tensor whose elements have the bits of another's.

    Args:
        builder: emits the kernel.
        values: a tensor of any shape.
        dtype: of the result, as wide as that of the values.
        kernel: the kernel's name.
    """

    def bits(tensor: Any) -> Any:
        return te.compute(tensor.shape, lambda *index: tirx.reinterpret(dtype, tensor(*index)), name="bits")

    return builder.emit_te(bits, values, primfunc_name_hint=kernel)
