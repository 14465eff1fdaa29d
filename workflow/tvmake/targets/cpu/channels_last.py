"""Convert convolutions and poolings to channels last, the best layout for a CPU's vectors.

With adjacent channels, every loop over channels is vectorised, whatever the size of the image. A network keeps a layout
that the user has chosen.

Only operators that ConvertLayout converts correctly take part. The others are lowered to kernels first, with layout
changes around them. Repair: `layout-of-norms`.
"""

from typing import Any

import tvm

from tvmake.targets.dynamic.box_selections import BOX_SELECTIONS
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
"""Operators that ConvertLayout can compute with another order of axes."""

IN_THEIR_OWN = ["relax.nn.pad"]
"""Operators that ConvertLayout leaves in their layout, between transposes."""

FEATURE_MAP_RANK = 4

LAYOUT_FAILURE = "tvmake.layout_failure"
"""Attribute of a module that TVM could not convert: the reason."""

LONGEST_REASON = 200
"""Characters; TVM quotes whole expressions."""


def channels_last(module: "tvm.IRModule") -> "tvm.IRModule":
    """The module in NHWC; unchanged if the user has chosen a layout, or if there are no convolutions. If TVM cannot
    convert it, the result has the reason as an attribute."""
    if (module.attrs and CHOSEN_LAYOUT in module.attrs) or not has_convolutions(module):
        return module
    transform = tvm.relax.transform
    passes = [
        transform.LegalizeOps(
            {
                **NORMS,
                **RESHAPES,
                **BOX_SELECTIONS,
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
    """Keep an operator if any order of axes suits it, after adding axes to its smaller operands; else lower it."""
    # An operand without a shape is a dimension used in arithmetic.
    shapes: list[Any] = [getattr(operand.ty, "shape", None) for operand in call.args]
    if all(shape is not None for shape in shapes):
        ranks = {len(shape) for shape in shapes}
        if ranks <= {0, FEATURE_MAP_RANK}:
            return call
        if max(ranks) == FEATURE_MAP_RANK:
            return builder.normalize(
                tvm.relax.Call(call.op, [_add_leading_axes(builder, operand) for operand in call.args], call.attrs)
            )
    return call.op.get_attr("FLegalize")(builder, call)


def _legalize_lookup(builder: "tvm.relax.BlockBuilder", call: "tvm.relax.Call") -> Any:
    return call if is_lookup_of_rows(call) else call.op.get_attr("FLegalize")(builder, call)


def _add_leading_axes(builder: "tvm.relax.BlockBuilder", operand: Any) -> Any:
    shape = list(operand.ty.shape)
    if len(shape) in {0, FEATURE_MAP_RANK}:
        return operand
    return builder.emit(tvm.relax.op.reshape(operand, [1] * (FEATURE_MAP_RANK - len(shape)) + shape))
