"""Defects of TVM's passes over graphs and of its operators."""

from tvmake.repairs.repair import Repair

GRAPH = (
    Repair(
        name="layout-of-axes-from-end",
        layer="graph",
        defect="ConvertLayout fails at operators whose axes are counted from the end (``squeeze(-2)``: it asks for memory "
        "until there is none), or makes invalid layouts of them; it also fails at a stack along a new last axis.",
        effect="Attention as PyTorch writes it cannot be converted.",
    ),
    Repair(
        name="layout-of-activations",
        layer="graph",
        defect="ConvertLayout does not know that ``relax.nn.leakyrelu`` and ``relax.nn.softplus`` are element-wise, and "
        "puts transposes around them.",
        effect="Two passes over memory for each layer of a GAN or a YOLO.",
    ),
    Repair(
        name="layout-of-clips",
        layer="graph",
        defect="ConvertLayout does not know that ``relax.clip`` is element-wise, and puts transposes around it.",
        effect="The ReLU6 of every MobileNet layer becomes a pass over memory of its own.",
    ),
    Repair(
        name="layout-of-lookups",
        layer="graph",
        defect="ConvertLayout does not know ``relax.take``, and puts transposes around it.",
        effect="Resizes of dynamic feature maps, which look rows and columns up, transpose them twice.",
    ),
    Repair(
        name="layout-of-choices",
        layer="graph",
        defect="ConvertLayout does not know that ``relax.where`` is element-wise, and takes the layout of a first operand "
        "that is a constant for that of the result.",
        effect="PReLU and ELU become passes of their own over memory.",
    ),
    Repair(
        name="layout-of-norms",
        layer="graph",
        defect="ConvertLayout gives a layer norm over several axes those of the new layout and leaves its scale and shift "
        "in the former one; its RMS norms cannot be lowered.",
        effect="Networks with such norms are wrong in another layout, or cannot be built.",
    ),
    Repair(
        name="mixed-precision-arguments",
        layer="graph",
        defect="ToMixedPrecision fails at calls with arguments other than tensors (the kernel of ``call_tir``, the number of "
        "``triu``, the bounds of ``clip``), at outputs that are a part of a tuple, and at constants without "
        "elements.",
        effect="Networks with such operators cannot be converted to float16.",
    ),
    Repair(
        name="grid-sample-dtype",
        layer="graph",
        defect="``grid_sample`` of float16 is annotated as float16 and lowered to float32.",
        effect="What follows cannot be computed with the result.",
    ),
    Repair(
        name="grid-sample-reflection",
        layer="graph",
        defect="``grid_sample`` with reflection at pixel centres divides by the distance between the outermost ones, which "
        "is 0 for one row.",
        effect='Such a network cannot be lowered ("Divide by zero").',
    ),
    Repair(
        name="unequal-shapes-in-fusion",
        layer="graph",
        defect="The dimension of a concatenation is inferred as ``n + 1 + (n + 1) + n``, and its kernel writes ``n * 3 + "
        "2``. FuseTIR matches the two part by part and takes ``n`` for 2.",
        effect="A kernel that is fused after the concatenation has a buffer that nothing allocates.",
        no_probe="only seen behind other passes of tvmake: tests/transform/test_simplify_shapes.py",
    ),
    Repair(
        name="filling-with-infinity",
        layer="graph",
        defect="``relax.op.full`` fails at infinities and NaN.",
        effect="Networks whose masks are filled with minus infinity cannot be built.",
    ),
    Repair(
        name="division-by-constant-zero",
        layer="graph",
        defect="A division of floating-point values by a constant zero cannot be lowered.",
        effect="Networks in which such a value is not chosen cannot be built.",
    ),
    Repair(
        name="multiplication-by-zero",
        layer="graph",
        defect="A multiplication by a constant zero is lowered to zero.",
        effect="NaN and infinities are lost, as in the softshrink of PyTorch.",
    ),
    Repair(
        name="float64-norms",
        layer="graph",
        defect="Layer, group and instance norms of float64 cannot be lowered.",
        effect="Networks in float64 cannot be built.",
    ),
    Repair(
        name="transposed-convolutions",
        layer="graph",
        defect="A transposed convolution is computed on an input with zeros between its values, in NCHW alone, without a "
        "schedule of its own on any target.",
        effect="Such layers take several times as long, and have neither layouts nor 8-bit integers.",
    ),
    Repair(
        name="recursion-at-casts",
        layer="graph",
        defect="CanonicalizeBindings does not end at a ``match_cast`` of an expression to one of its own dimensions.",
        effect="The import ends in a stack overflow.",
    ),
    Repair(
        name="shape-lowering-of-casts",
        layer="graph",
        defect="VMShapeLower does not compute an expression that a ``match_cast`` reads, unless a variable is bound to it.",
        effect="Networks with checks of their sizes cannot be built.",
    ),
    Repair(
        name="storage-of-branches",
        layer="graph",
        defect="StaticPlanBlockMemory lets a tensor of one branch of an ``If`` reuse the storage of the other branch.",
        effect="Networks whose loops are functions with branches crash.",
    ),
    Repair(
        name="scalars-beside-shapes",
        layer="graph",
        defect="FuseOps gives a function dimensions that are in no shape as one argument of type ``R.Shape``, and those "
        "whose value an operator takes as scalars. FuseTIR fails at functions with both.",
        effect="Networks with positions behind a past (``arange(past, past + n)``) cannot be built.",
    ),
    Repair(
        name="sizes-after-kernels",
        layer="graph",
        defect="FuseOps orders what it has fused by the tensors that are read, and not by dimensions.",
        effect='VMShapeLower fails at networks with two computed lengths: "has not been computed".',
    ),
    Repair(
        name="sizes-in-slice-bounds",
        layer="graph",
        defect="DecomposeOpsForInference reads sizes from tensors into dimensions of its own. CanonicalizeBindings replaces a "
        "network's dimensions by these in shapes, but not in integers that operators take, such as the bounds of a slice.",
        effect="Tensors lose their shapes where both meet; the type of a NonMaxSuppression of such boxes is computed through a null "
        "pointer, which ends the process.",
    ),
    Repair(
        name="order-by-address",
        layer="graph",
        defect="The symbolic variables that are appended to the arguments of a kernel are kept in Python sets "
        "(``_get_unbound_tir_vars`` in tvm/relax/utils.py), and VMShapeLower iterates a map by addresses.",
        effect="The code of networks with dynamic dimensions differs from process to process.",
    ),
    Repair(
        name="dynamic-reshapes",
        layer="graph",
        defect="A reshape computes the position of an element in the whole tensor, divided by every dimension in turn. If "
        "one is dynamic, nothing is simplified, and the kernel counts as opaque to fusion.",
        effect="Several divisions for each element, and a pass over memory for each reshape.",
    ),
    Repair(
        name="nearest-resizes",
        layer="graph",
        defect="A nearest-neighbour resize computes the index of each element in floating point unless height and width "
        "are fixed.",
        effect="Upsampling of dynamic feature maps is slow.",
    ),
    Repair(
        name="rows-of-selected-boxes",
        layer="graph",
        defect="The result of a NonMaxSuppression of a dynamic number of boxes has as many rows as its limit.",
        effect="Detectors without a limit (2³¹ - 1 in torchvision's ONNX files) need 48 GiB.",
    ),
    Repair(
        name="norm-variance",
        layer="graph",
        defect="Group and instance norms compute the variance as the mean of squares less the square of the mean "
        "(include/tvm/topi/nn/group_norm.h).",
        effect="If the mean is a thousand times the deviation, 26 dB remain of the 102 dB of float32.",
    ),
    Repair(
        name="opencl-scans",
        layer="graph",
        defect="Cumulative sums on GPUs hand values from thread to thread of a warp without a barrier, and OpenCL has no "
        "warp.",
        effect="Sums are wrong on devices whose threads do not advance together.",
        applies_to=("opencl", "adreno-texture", "adreno-clml"),
    ),
    Repair(
        name="reshape-pattern-of-sums",
        layer="graph",
        defect='``has_reshape_pattern`` fails at transposes of some sums of dimensions: "is not divisible".',
        effect="Networks with such dimensions cannot be built.",
        no_probe="no small reproducer yet",
    ),
)
