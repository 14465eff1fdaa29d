"""Element types."""

from typing import Any


def dtype_name(value: Any) -> str:
    """The element type of a buffer, a tensor or a tensor's type, such as ``float32``: TVM holds it as text or as a type."""
    return str(getattr(value.dtype, "dtype", value.dtype))
