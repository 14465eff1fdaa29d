"""Convolutions and pooling with channels innermost, which is the layout that a CPU's vectors want.

The values of all channels are neighbours then, so that every loop over channels is one over lanes, whatever the size of the image.
A network whose layout the user has chosen keeps it.

Only operators that ConvertLayout is known to convert correctly take part; the others are lowered to kernels beforehand, where layouts
end and begin. Repair: `layout-of-norms`.
"""

from typing import Any

import tvm

from tvmake.targets.dynamic.reshapes import RESHAPES
from tvmake.targets.numbers.norms import NORMS
from tvmake.transform.layouts.activations import spell_out_activations
from tvmake.transform.layouts.choices import CHOSEN_LAYOUT, FAILURES, LAYOUTS, has_convolutions
from tvmake.transform.layouts.clips import join_clips, split_clips
from tvmake.transform.layouts.lookups import is_lookup_of_rows, teach_layout_of_lookups
from tvmake.transform.layouts.transposes import OF_ONE, OF_SEVERAL, transpose_afterwards

IN_ANY_LAYOUT = [
    f"relax.{name}"
    for name in (
        "nn.conv2d", "nn.conv2d_transpose", "nn.max_pool2d", "nn.avg_pool2d", "nn.adaptive_avg_pool2d", "image.resize2d",
        "concat", "mean", "sum", "max", "min", "permute_dims", *OF_ONE,
    )
]  # fmt: skip
"""Operators that ConvertLayout computes as well with another order of axes."""

IN_THEIR_OWN = ["relax.nn.pad"]
"""Operators that it leaves in their layout, between transposes."""

FEATURE_MAP_RANK = 4

LAYOUT_FAILURE = "tvmake.layout_failure"
"""The attribute of a module that TVM could not convert: why."""

LONGEST_REASON = 200
"""Characters; TVM quotes whole expressions."""


def channels_last(module: "tvm.IRModule") -> "tvm.IRModule":
    """The module in NHWC; unchanged where the user has chosen, or where nothing asks for it; where TVM cannot convert it, with the
    reason as an attribute."""
    if (module.attrs and CHOSEN_LAYOUT in module.attrs) or not has_convolutions(module):
        return module
    transform = tvm.relax.transform
    passes = [
        transform.LegalizeOps(
            {
                **NORMS,
                **RESHAPES,
                **dict.fromkeys((f"relax.{name}" for name in OF_SEVERAL), _legalize_several),
                "relax.take": _legalize_lookup,
            },
            skip_ops=[*IN_ANY_LAYOUT, *IN_THEIR_OWN],
        ),
        transform.ConvertLayout(LAYOUTS["NHWC"]),
        transform.Normalize(),
    ]
    teach_layout_of_lookups()
    try:
        spelled = spell_out_activations(split_clips(module))
        return join_clips(transpose_afterwards(tvm.transform.Sequential(passes)(spelled)))
    except FAILURES as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:LONGEST_REASON]
        return module.with_attr(LAYOUT_FAILURE, reason)


def _legalize_several(builder: "tvm.relax.BlockBuilder", call: "tvm.relax.Call") -> Any:
    """An operation on several operands as it is, those of fewer axes given the others, where any order of axes does; else lowered."""
    # A dimension that is computed with is an operand without a shape.
    shapes: list[Any] = [getattr(operand.ty, "shape", None) for operand in call.args]
    if all(shape is not None for shape in shapes):
        ranks = {len(shape) for shape in shapes}
        if ranks <= {0, FEATURE_MAP_RANK}:
            return call
        if max(ranks) == FEATURE_MAP_RANK:
            return builder.normalize(
                tvm.relax.Call(call.op, [_spread(builder, each) for each in call.args], call.attrs)
            )
    return call.op.get_attr("FLegalize")(builder, call)


def _legalize_lookup(builder: "tvm.relax.BlockBuilder", call: "tvm.relax.Call") -> Any:
    return call if is_lookup_of_rows(call) else call.op.get_attr("FLegalize")(builder, call)


def _spread(builder: "tvm.relax.BlockBuilder", operand: Any) -> Any:
    shape = list(operand.ty.shape)
    if len(shape) in {0, FEATURE_MAP_RANK}:
        return operand
    return builder.emit(tvm.relax.op.reshape(operand, [1] * (FEATURE_MAP_RANK - len(shape)) + shape))
