"""Propagate layouts through lookups along an axis.

Repair: `layout-of-lookups`.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.dimensions import is_known

from tvm import relax  # isort: skip

ATTRIBUTE = "FRelaxInferLayout"
AXES = "ABCDEFGHIJ"
"""ConvertLayout's names of a tensor's axes in their original order."""


def is_lookup_of_rows(call: Any) -> bool:
    """Whether a ``take`` takes elements of a dynamic tensor along an axis, by a list of indices."""
    shape = call.ty.shape if isinstance(call.ty, relax.TensorType) else None
    return shape is not None and call.args[1].ty.ndim == 1 and not all(map(is_known, shape))


@cache
def teach_layout_of_lookups() -> None:
    """Let ConvertLayout propagate the layout of a dynamic tensor through ``relax.take``."""
    tvm.ir.register_op_attr("relax.take", ATTRIBUTE, _infer_layout)


def _infer_layout(call: Any, _desired: Mapping[str, Any], layouts: Mapping[Any, Any]) -> Any:
    data, indices = call.args
    initial = AXES[: data.ty.ndim]
    known = str(layouts[data].layout.name) if data in layouts else ""
    layout = known if is_lookup_of_rows(call) and sorted(known) == sorted(initial) else initial
    axis = layout.index(AXES[int(call.attrs.axis) % data.ty.ndim])
    result = layout if call.ty.ndim == data.ty.ndim else AXES[: call.ty.ndim]
    return _make(
        "relax.transform.InferLayoutOutput",
        input_layouts=[_decision(layout), _decision(AXES[: indices.ty.ndim])],
        output_layouts=[_decision(result)],
        new_attrs=relax.op.take(data, indices, axis, str(call.attrs.mode)).attrs,
        new_args={},
    )


def _decision(axes: str) -> Any:
    return _make("relax.transform.LayoutDecision", layout=tvm.s_tir.slayout(axes), is_unknown_dim=False)


def _make(key: str, **fields: Any) -> Any:
    """Create an object of a class without a constructor in Python."""
    make = tvm_ffi.get_global_func("ffi.MakeObjectFromPackedArgs")
    pairs = [part for field in fields.items() for part in field]
    return make(tvm_ffi.core._object_type_key_to_index(key), *pairs)
