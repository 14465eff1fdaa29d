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
    ),
    Repair(
        name="onnx-shape-expressions",
        layer="import",
        defect="The importer for ONNX holds a shape as an expression of its own kind, which most of its converters refuse.",
        effect="Most networks with dynamic dimensions cannot be imported.",
    ),
    Repair(
        name="onnx-automatic-padding",
        layer="import",
        defect="The importer for ONNX rounds the dimensions of MaxPool with SAME_LOWER down, pads a negative number of "
        "elements where kernel windows leave some out, and counts dilations.",
        effect="Poolings have other shapes or values than in ONNX Runtime.",
    ),
    Repair(
        name="onnx-resize",
        layer="import",
        defect="The importer for ONNX ignores axes, antialias and keep_aspect_ratio_policy of Resize, and its downsampling "
        "differs from ONNX. It takes a constant without elements for sizes or scales.",
        upstream="https://github.com/apache/tvm/issues/19570, of one of the modes",
        effect="Resized images are wrong.",
    ),
    Repair(
        name="onnx-equal-booleans",
        layer="import",
        defect="The importer for ONNX compares booleans as floating-point values, which LLVM refuses.",
        effect="Networks with ``Equal`` of masks cannot be built.",
    ),
    Repair(
        name="take-of-negative-indices",
        layer="import",
        defect='``take`` in mode "fast", which all importers emit, reads before the tensor if an index counts from the '
        "end.",
        effect="``x[:, -1]`` gives values that differ from run to run.",
    ),
    Repair(
        name="digits-of-atanh",
        layer="import",
        defect="``atanh`` on CPUs is ``log((1 + x) / (1 - x)) / 2``.",
        effect="Few digits remain near zero.",
    ),
    Repair(
        name="argmax-of-infinities",
        layer="import",
        defect="Indices of extrema are searched from the smallest finite value on.",
        effect="The index of the largest of nothing but minus infinities is -1.",
    ),
    Repair(
        name="scattering-of-fewer-indices",
        layer="import",
        defect="``scatter_elements`` computes positions as if there were an index for every element beside the axis.",
        effect="Values are written to wrong positions.",
    ),
    Repair(
        name="digits-near-zero",
        layer="import",
        defect="The importers write ``expm1``, ``log1p`` and ``Elu`` as plain formulas.",
        effect="One digit of float32 remains for 1e-6.",
    ),
    Repair(
        name="float-reassociation",
        layer="import",
        defect="The simplifier takes ``(1 + x) - 1`` for ``x`` in floating point.",
        effect="Formulas that correct a rounding, such as that of Kahan for ``log1p``, have no effect.",
    ),
    Repair(
        name="float-quotient-bounds",
        layer="import",
        defect="The analyzer fails at a quotient of floating-point values whose divisor may be zero.",
        effect="Resizes of dynamic feature maps cannot be built.",
    ),
    Repair(
        name="guarded-divisions",
        layer="import",
        defect="Inside of a choice by ``y == 0`` the simplifier removes a guard of the divisor, and both branches are "
        "computed.",
        effect="The processor stops the program at an integer division by zero.",
    ),
    Repair(
        name="stablehlo-attributes",
        layer="import",
        defect="The importer for StableHLO drops strides, axes and dimension numbers.",
        effect="Networks are wrong.",
    ),
    Repair(
        name="tflite-softmax-factor",
        layer="import",
        defect="The importer for TFLite ignores the factor of a softmax, the tanh form of GELU, the corners of "
        "nearest-neighbour resizes and the dtype of the index of a maximum; it writes transposed convolutions in a "
        "layout without a kernel, and calls functions that packages do not have.",
        effect="Networks are wrong or cannot be built.",
    ),
    Repair(
        name="tflite-loops",
        layer="import",
        defect="The importer for TFLite writes a loop as a function that calls itself, and fails at slices whose position "
        "is the counter.",
        effect="Recurrent layers of Keras cannot be imported.",
        no_probe="needs a file of LiteRT: tests/frontend/tflite/test_control_flow.py",
    ),
    Repair(
        name="tflite-complex-tensors",
        layer="import",
        defect="The importer for TFLite represents complex tensors with an axis more, which its reshapes and casts do not "
        "know, and takes the shapes of spectra from the file, which has placeholders for computed ones.",
        effect="Networks that start with a spectrogram cannot be imported.",
        no_probe="needs a file of LiteRT: tests/frontend/tflite/test_spectra.py",
    ),
    Repair(
        name="tflite-lstm",
        layer="import",
        defect="The importer for TFLite has the LSTM with one gate for input and forgetting alone.",
        effect="LSTM layers of Keras cannot be imported.",
        no_probe="needs a file of LiteRT: tests/frontend/tflite/test_lstm.py",
    ),
    Repair(
        name="tflite-quantized-operators",
        layer="import",
        defect="The importer for TFLite knows the quantised forms of about half of the operators, and no dynamic-range "
        "quantisation.",
        effect="Most quantised networks cannot be imported.",
        no_probe="needs a file of LiteRT: tests/frontend/tflite/test_dequantized_operators.py",
    ),
    Repair(
        name="torch-elu-scale",
        layer="import",
        defect="``elu`` drops its ``scale`` and ``input_scale``; PyTorch decomposes SELU and CELU into it.",
        effect="SELU and CELU are wrong.",
    ),
    Repair(
        name="torch-add-alpha",
        layer="import",
        defect="``add`` and ``sub`` ignore ``alpha``.",
        effect="Results are wrong.",
    ),
    Repair(
        name="torch-reductions",
        layer="import",
        defect="``prod`` of an axis has no converter, ``prod`` leaves integers in their dtype, and ``any`` of numbers "
        "gives the largest.",
        effect="Imports fail or give another dtype.",
    ),
    Repair(
        name="torch-group-norm-without-weight",
        layer="import",
        defect="``native_group_norm`` fails without weight or bias.",
        effect="The import fails.",
    ),
    Repair(
        name="torch-max-by-sorting",
        layer="import",
        defect="``max`` of an axis is imported as ``topk``.",
        effect="A maximum takes as long as a sort.",
    ),
    Repair(
        name="torch-integer-operators",
        layer="import",
        defect="``pow`` of integers, ``neg`` and ``sign`` of unsigned integers, ``clamp`` with one bound, rounded "
        "quotients by a number of another dtype, ``sort`` of narrow integers and booleans and unsorted ``topk`` "
        "fail.",
        effect="Imports or builds fail.",
    ),
    Repair(
        name="torch-boolean-arithmetic",
        layer="import",
        defect="``mul``, ``add``, extrema, comparisons and cumulative sums of booleans are imported as arithmetic of "
        "booleans, which LLVM's code generator refuses.",
        effect="Networks with arithmetic on masks cannot be built.",
    ),
    Repair(
        name="torch-concatenation-types",
        layer="import",
        defect="``cat`` neither converts operands of several dtypes nor leaves out the empty vectors that PyTorch ignores.",
        effect="The import fails.",
    ),
    Repair(
        name="torch-remainders",
        layer="import",
        defect="``remainder`` subtracts a rounded multiple of the divisor.",
        effect="Few digits remain if the quotient is large.",
    ),
    Repair(
        name="torch-conv-transpose3d",
        layer="import",
        defect="Transposed convolutions of volumes are not imported, though TVM has them.",
        effect="The import fails.",
    ),
    Repair(
        name="torch-dynamic-axes",
        layer="import",
        defect="``empty`` fails at dynamic sizes, ``var`` and ``std`` with a correction over dynamic axes, ``reshape`` at "
        "comparisons of a number with a dimension; ``squeeze`` drops dynamic axes.",
        effect="Networks with dynamic dimensions cannot be imported or have another shape.",
    ),
    Repair(
        name="torch-slice-bounds",
        layer="import",
        defect="The bounds of a slice are clamped to the dimension, whatever the program says of their sizes.",
        effect="The shape of the result fits no other operand: decoders with a past cannot be imported.",
    ),
    Repair(
        name="torch-matmul-dtype",
        layer="import",
        defect="Every matmul is computed in float32.",
        effect="Sums with a matmul of float64 fail, and integers lose digits.",
    ),
    Repair(
        name="torch-operators-with-several-outputs",
        layer="import",
        defect="Operators with several outputs give the first one for each.",
        effect="Outputs have wrong values and shapes.",
    ),
    Repair(
        name="torch-indexing",
        layer="import",
        defect="Indexing with several tensors takes every combination of the indices instead of pairs, fails if they have "
        "several axes, and reads out of bounds if one counts from the end; views by strides are those that are "
        "reshapes alone.",
        effect="Results have another shape; sliding windows cannot be imported.",
    ),
    Repair(
        name="torch-scattering",
        layer="import",
        defect="``index_put`` combines indices and whole axes unlike NumPy, scattering sums have no converter, and the "
        "positions of ``slice_scatter`` are simplified wrongly on GPUs for steps along the last axis.",
        effect="Results are wrong or the import fails.",
    ),
    Repair(
        name="torch-pooling",
        layer="import",
        defect="``avg_pool2d`` ignores ``divisor_override``, and poolings without strides fail.",
        effect="Results are wrong.",
    ),
    Repair(
        name="torch-resizing",
        layer="import",
        defect="Nearest neighbours take half-pixel coordinates, ``antialias`` is ignored, bilinear resizes take the ratio "
        "of sizes instead of the one that was requested, and ``grid_sample`` gets a grid with coordinates last.",
        effect="Resized images are wrong.",
    ),
    Repair(
        name="torch-promotion",
        layer="import",
        defect="A number has the dtype of the tensor beside it, and some operators of two dtypes fail.",
        effect="Integers plus 1.5 are integers plus 1.",
    ),
    Repair(
        name="torch-higher-order-operators",
        layer="import",
        defect="The importer makes functions of the branches of ``torch.cond``, which have only its own converters and "
        "which no rewrite looks into; ``scan`` and flex attention have no converter.",
        effect="Such networks cannot be imported.",
    ),
)
