"""Defects of TVM's importers and of what they emit."""

from tvmake.repairs.repair import Repair

IMPORT = (
    Repair(
        name="onnx-written-kernels",
        layer="import",
        defect="The importer for ONNX computes ``Pad`` and ``Clip`` by kernels that it writes at once (``emit_te``), which "
        "no rewrite of the graph sees through.",
        effect="Paddings and ReLU6 stay in float32 with conversions around them, keep their layout and are not fused into "
        "convolutions.",
        where=("frontend/onnx/builder.py", "frontend/onnx/converters.py"),
    ),
    Repair(
        name="onnx-shape-expressions",
        layer="import",
        defect="The importer for ONNX holds a shape as an expression of its own kind, which most of its converters refuse.",
        effect="Most networks with dynamic dimensions cannot be imported.",
        where=("frontend/onnx/extents.py",),
    ),
    Repair(
        name="onnx-automatic-padding",
        layer="import",
        defect="The importer for ONNX rounds the dimensions of MaxPool with SAME_LOWER down, pads a negative number of "
        "elements where kernel windows leave some out, and counts dilations.",
        effect="Poolings have other shapes or values than in ONNX Runtime.",
        where=("frontend/onnx/rewrites/automatic_padding.py",),
    ),
    Repair(
        name="onnx-resize",
        layer="import",
        defect="The importer for ONNX ignores axes, antialias and keep_aspect_ratio_policy of Resize, and its downsampling "
        "differs from ONNX. It takes a constant without elements for sizes or scales.",
        effect="Resized images are wrong.",
        where=("frontend/onnx/rewrites/resize.py",),
    ),
    Repair(
        name="onnx-equal-booleans",
        layer="import",
        defect="The importer for ONNX compares booleans as floating-point values, which LLVM refuses.",
        effect="Networks with ``Equal`` of masks cannot be built.",
        where=("frontend/onnx/rewrites/operators.py",),
    ),
    Repair(
        name="take-of-negative-indices",
        layer="import",
        defect='``take`` in mode "fast", which all importers emit, reads before the tensor if an index counts from the '
        "end.",
        effect="``x[:, -1]`` gives values that differ from run to run.",
        where=("frontend/relax_fixes.py",),
    ),
    Repair(
        name="digits-of-atanh",
        layer="import",
        defect="``atanh`` on CPUs is ``log((1 + x) / (1 - x)) / 2``.",
        effect="Few digits remain near zero.",
        where=("frontend/relax_fixes.py",),
    ),
    Repair(
        name="argmax-of-infinities",
        layer="import",
        defect="Indices of extrema are searched from the smallest finite value on.",
        effect="The index of the largest of nothing but minus infinities is -1.",
        where=("frontend/relax_fixes.py",),
    ),
    Repair(
        name="scattering-of-fewer-indices",
        layer="import",
        defect="``scatter_elements`` computes positions as if there were an index for every element beside the axis.",
        effect="Values are written to wrong positions.",
        where=("frontend/relax_fixes.py", "frontend/torch/operators/places/scattering.py"),
    ),
    Repair(
        name="digits-near-zero",
        layer="import",
        defect="The importers write ``expm1``, ``log1p`` and ``Elu`` as plain formulas.",
        effect="One digit of float32 remains for 1e-6.",
        where=("frontend/torch/operators/converters.py", "frontend/onnx/converters.py"),
    ),
    Repair(
        name="float-reassociation",
        layer="import",
        defect="The simplifier takes ``(1 + x) - 1`` for ``x`` in floating point.",
        effect="Formulas that correct a rounding, such as that of Kahan for ``log1p``, have no effect.",
        where=("frontend/near_zero.py",),
    ),
    Repair(
        name="float-quotient-bounds",
        layer="import",
        defect="The analyzer fails at a quotient of floating-point values whose divisor may be zero.",
        effect="Resizes of dynamic feature maps cannot be built.",
        where=("frontend/resizing.py",),
    ),
    Repair(
        name="guarded-divisions",
        layer="import",
        defect="Inside of a choice by ``y == 0`` the simplifier removes a guard of the divisor, and both branches are "
        "computed.",
        effect="The processor stops the program at an integer division by zero.",
        where=("transform/numbers/whole_divisions.py", "frontend/torch/operators/counting.py"),
    ),
    Repair(
        name="stablehlo-attributes",
        layer="import",
        defect="The importer for StableHLO drops strides, axes and dimension numbers.",
        effect="Networks are wrong.",
        where=("frontend/stablehlo/importer.py",),
    ),
    Repair(
        name="tflite-softmax-factor",
        layer="import",
        defect="The importer for TFLite ignores the factor of a softmax, the tanh form of GELU, the corners of "
        "nearest-neighbour resizes and the dtype of the index of a maximum; it writes transposed convolutions in a "
        "layout without a kernel, and calls functions that packages do not have.",
        effect="Networks are wrong or cannot be built.",
        where=("frontend/tflite/operators.py",),
    ),
    Repair(
        name="tflite-loops",
        layer="import",
        defect="The importer for TFLite writes a loop as a function that calls itself, and fails at slices whose position "
        "is the counter.",
        effect="Recurrent layers of Keras cannot be imported.",
        where=("frontend/tflite/loops.py",),
        no_probe="needs a file of LiteRT: tests/frontend/tflite/test_loops.py",
    ),
    Repair(
        name="tflite-lstm",
        layer="import",
        defect="The importer for TFLite has the LSTM with one gate for input and forgetting alone.",
        effect="LSTM layers of Keras cannot be imported.",
        where=("frontend/tflite/recurrent.py",),
        no_probe="needs a file of LiteRT: tests/frontend/tflite/test_recurrent.py",
    ),
    Repair(
        name="tflite-quantized-operators",
        layer="import",
        defect="The importer for TFLite knows the quantised forms of about half of the operators, and no dynamic-range "
        "quantisation.",
        effect="Most quantised networks cannot be imported.",
        where=("frontend/tflite/real_numbers.py",),
        no_probe="needs a file of LiteRT: tests/frontend/tflite/test_real_numbers.py",
    ),
    Repair(
        name="torch-elu-scale",
        layer="import",
        defect="``elu`` drops its ``scale`` and ``input_scale``; PyTorch decomposes SELU and CELU into it.",
        effect="SELU and CELU are wrong.",
        where=("frontend/torch/operators/converters.py",),
    ),
    Repair(
        name="torch-add-alpha",
        layer="import",
        defect="``add`` and ``sub`` ignore ``alpha``.",
        effect="Results are wrong.",
        where=("frontend/torch/operators/converters.py",),
    ),
    Repair(
        name="torch-reductions",
        layer="import",
        defect="``prod`` of an axis has no converter, ``prod`` leaves integers in their dtype, and ``any`` of numbers "
        "gives the largest.",
        effect="Imports fail or give another dtype.",
        where=("frontend/torch/operators/converters.py",),
    ),
    Repair(
        name="torch-group-norm-without-weight",
        layer="import",
        defect="``native_group_norm`` fails without weight or bias.",
        effect="The import fails.",
        where=("frontend/torch/operators/converters.py",),
    ),
    Repair(
        name="torch-max-by-sorting",
        layer="import",
        defect="``max`` of an axis is imported as ``topk``.",
        effect="A maximum takes as long as a sort.",
        where=("frontend/torch/operators/converters.py",),
    ),
    Repair(
        name="torch-integer-operators",
        layer="import",
        defect="``pow`` of integers, ``neg`` and ``sign`` of unsigned integers, ``clamp`` with one bound, rounded "
        "quotients by a number of another dtype, ``sort`` of narrow integers and booleans and unsorted ``topk`` "
        "fail.",
        effect="Imports or builds fail.",
        where=(
            "frontend/torch/operators/integers.py",
            "frontend/torch/operators/sorts.py",
            "frontend/torch/operators/converters.py",
        ),
    ),
    Repair(
        name="torch-boolean-arithmetic",
        layer="import",
        defect="``mul``, ``add``, extrema, comparisons and cumulative sums of booleans are imported as arithmetic of "
        "booleans, which LLVM's code generator refuses.",
        effect="Networks with arithmetic on masks cannot be built.",
        where=("frontend/torch/operators/converters.py",),
    ),
    Repair(
        name="torch-concatenation-types",
        layer="import",
        defect="``cat`` neither converts operands of several dtypes nor leaves out the empty vectors that PyTorch ignores.",
        effect="The import fails.",
        where=("frontend/torch/operators/converters.py",),
    ),
    Repair(
        name="torch-remainders",
        layer="import",
        defect="``remainder`` subtracts a rounded multiple of the divisor.",
        effect="Few digits remain if the quotient is large.",
        where=("frontend/torch/operators/converters.py",),
    ),
    Repair(
        name="torch-conv-transpose3d",
        layer="import",
        defect="Transposed convolutions of volumes are not imported, though TVM has them.",
        effect="The import fails.",
        where=("frontend/torch/operators/converters.py",),
    ),
    Repair(
        name="torch-dynamic-axes",
        layer="import",
        defect="``empty`` fails at dynamic sizes, ``var`` and ``std`` with a correction over dynamic axes, ``reshape`` at "
        "comparisons of a number with a dimension; ``squeeze`` drops dynamic axes.",
        effect="Networks with dynamic dimensions cannot be imported or have another shape.",
        where=("frontend/torch/operators/dynamic_axes.py",),
    ),
    Repair(
        name="torch-slice-bounds",
        layer="import",
        defect="The bounds of a slice are clamped to the dimension, whatever the program says of their sizes.",
        effect="The shape of the result fits no other operand: decoders with a past cannot be imported.",
        where=("frontend/torch/operators/places/slicing.py",),
    ),
    Repair(
        name="torch-matmul-dtype",
        layer="import",
        defect="Every matmul is computed in float32.",
        effect="Sums with a matmul of float64 fail, and integers lose digits.",
        where=("frontend/torch/operators/matrices/products.py",),
    ),
    Repair(
        name="torch-operators-with-several-outputs",
        layer="import",
        defect="Operators with several outputs give the first one for each.",
        effect="Outputs have wrong values and shapes.",
        where=("frontend/torch/operators/multi_output_ops.py",),
    ),
    Repair(
        name="torch-indexing",
        layer="import",
        defect="Indexing with several tensors takes every combination of the indices instead of pairs, fails if they have "
        "several axes, and reads out of bounds if one counts from the end; views by strides are those that are "
        "reshapes alone.",
        effect="Results have another shape; sliding windows cannot be imported.",
        where=("frontend/torch/operators/places/indexing.py",),
    ),
    Repair(
        name="torch-scattering",
        layer="import",
        defect="``index_put`` combines indices and whole axes unlike NumPy, scattering sums have no converter, and the "
        "positions of ``slice_scatter`` are simplified wrongly on GPUs for steps along the last axis.",
        effect="Results are wrong or the import fails.",
        where=("frontend/torch/operators/places/scattering.py",),
    ),
    Repair(
        name="torch-pooling",
        layer="import",
        defect="``avg_pool2d`` ignores ``divisor_override``, and poolings without strides fail.",
        effect="Results are wrong.",
        where=("frontend/torch/operators/windows/pooling.py",),
    ),
    Repair(
        name="torch-resizing",
        layer="import",
        defect="Nearest neighbours take half-pixel coordinates, ``antialias`` is ignored, bilinear resizes take the ratio "
        "of sizes instead of the one that was requested, and ``grid_sample`` gets a grid with coordinates last.",
        effect="Resized images are wrong.",
        where=("frontend/torch/operators/windows/resizing.py",),
    ),
    Repair(
        name="torch-promotion",
        layer="import",
        defect="A number has the dtype of the tensor beside it, and some operators of two dtypes fail.",
        effect="Integers plus 1.5 are integers plus 1.",
        where=("frontend/torch/promotion.py",),
    ),
    Repair(
        name="torch-higher-order-operators",
        layer="import",
        defect="The importer makes functions of the branches of ``torch.cond``, which have only its own converters and "
        "which no rewrite looks into; ``scan`` and flex attention have no converter.",
        effect="Such networks cannot be imported.",
        where=("frontend/torch/branches.py", "frontend/torch/subgraphs.py"),
    ),
)
