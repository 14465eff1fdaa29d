"""Resize dynamic feature maps that repeat each element an integer number of times by integer division of indices.

Repair: `nearest-resizes`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tvmake.ir.dimensions import is_known, whole_factor

from tvm import relax, te, topi  # isort: skip

RESIZE = "relax.image.resize2d"


def _legalize_resize(builder: "relax.BlockBuilder", call: "relax.Call") -> Any:
    factors = _factors(call)
    if factors is None:
        return call.op.get_attr("FLegalize")(builder, call)
    return builder.call_te(_repeat, call.args[0], factors, list(call.ty.shape), primfunc_name_hint="resize2d")


def _factors(call: "relax.Call") -> list[int] | None:
    """How many times each axis repeats its elements; None for other operators."""
    attrs = call.attrs
    attributes = str(attrs.method), str(attrs.coordinate_transformation_mode), str(attrs.rounding_method)
    shapes = call.args[0].ty.shape, call.ty.shape
    if attributes != ("nearest_neighbor", "asymmetric", "floor") or None in shapes:
        return None
    pairs = list(zip(*shapes, strict=True))
    if all(is_known(extent) for pair in pairs for extent in pair):
        return None  # TVM divides integers itself
    factors = [whole_factor(*pair) for pair in pairs]
    return None if None in factors else factors  # type: ignore[return-value]


def _repeat(data: Any, factors: Sequence[int], shape: list[Any]) -> Any:
    def element(*at: Any) -> Any:
        return data(*(index // factor for index, factor in zip(at, factors, strict=True)))

    return te.compute(shape, element, name="resize", tag=topi.tag.INJECTIVE)


NEAREST_RESIZES: dict[str, Callable[["relax.BlockBuilder", "relax.Call"], Any]] = {RESIZE: _legalize_resize}
"""Legalisations for ``LegalizeOps``."""
