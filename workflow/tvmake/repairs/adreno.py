"""Defects of TVM's passes, schedules and code for textures on Adreno GPUs."""

from tvmake.repairs.repair import Repair

TEXTURES = ("adreno-texture", "adreno-clml")
SINCE = "not reported yet; since https://github.com/apache/tvm/pull/18523"

ADRENO = (
    Repair(
        name="adreno-conv2d-accumulator",
        layer="graph",
        defect="The legaliser of conv2d for Adreno drops ``out_dtype``; it reads the wrong channels of grouped "
        "convolutions and divides by zero for depthwise ones.",
        effect="Networks in float16 fail in fusion; grouped convolutions are wrong.",
        upstream=SINCE,
        applies_to=TEXTURES,
    ),
    Repair(
        name="adreno-transposed-convolutions",
        layer="graph",
        defect="ConvertLayout for Adreno needs a layout of transposed convolutions, for which there is no kernel in blocks "
        "of channels.",
        effect="Networks with transposed convolutions cannot be lowered.",
        applies_to=TEXTURES,
        no_probe="no small reproducer yet",
    ),
    Repair(
        name="adreno-views-without-scope",
        layer="graph",
        defect="AnnotateCustomMemoryScope leaves some results without a memory scope. If such a result is reshaped to one "
        "with a scope, RewriteDataflowReshape makes a view, and the outputs still name the former variable.",
        effect='Builds end with "Var lv is not defined".',
        upstream=SINCE,
        applies_to=TEXTURES,
    ),
    Repair(
        name="adreno-shared-constants",
        layer="graph",
        defect="AnnotateCustomMemoryScope writes memory scopes into constants that belong to the caller's module as well.",
        effect="The next build of that module, for any target, ends in ``KeyError: key is not in Map``.",
        upstream=SINCE,
        applies_to=TEXTURES,
    ),
    Repair(
        name="adreno-scopes-by-call",
        layer="graph",
        defect="SpecializePrimFuncBasedOnCallSite gives a kernel the memory scopes of its last call alone. It also fails at "
        "kernels whose buffers have an alignment of their own, such as those that sort.",
        effect="Another call passes a buffer for a texture, or a texture for a buffer: the device reads nonsense or faults.",
        upstream=SINCE,
        applies_to=TEXTURES,
    ),
    Repair(
        name="adreno-device-per-scope",
        layer="graph",
        defect="Each memory scope becomes a device of the virtual machine (a VDevice), in an order that is not written down.",
        effect='A virtual machine that is opened with the one GPU ends with "Mismatched device_type".',
        upstream=SINCE,
        applies_to=TEXTURES,
    ),
    Repair(
        name="adreno-integers-in-textures",
        layer="graph",
        defect="AnnotateCustomMemoryScope decides by shapes alone: a result with five axes, the last one of four, becomes "
        "an image, whatever its dtype.",
        effect='Code generation refuses 64-bit integers ("Unsupported Channel Size: 256"), booleans and bytes.',
        upstream=SINCE,
        applies_to=TEXTURES,
    ),
    Repair(
        name="adreno-inputs-in-textures",
        layer="graph",
        defect="AnnotateCustomMemoryScope expects an input in a texture if its shape looks like blocks of channels.",
        effect="A caller's buffer is read as a texture.",
        upstream=SINCE,
        applies_to=TEXTURES,
    ),
    Repair(
        name="adreno-layouts-in-half",
        layer="schedule",
        defect="dlight's rule for layout transforms on Adreno writes eight lanes of float16 at once; its general rules give "
        "each lane of a texel to a thread of its own.",
        effect="Stores overwrite each other.",
        applies_to=TEXTURES,
        no_probe="wrong on a device alone",
    ),
    Repair(
        name="adreno-pipeline",
        layer="code generation",
        defect='The TIR pipeline "adreno" lacks the passes for host and device code, so that ``tirx.build`` fails with a '
        "TypeError; the default pipeline takes images for pointers.",
        effect="Textures cannot be used: the build fails, or the code compiles on no device.",
        upstream=SINCE,
        applies_to=TEXTURES,
    ),
    Repair(
        name="adreno-lanes-share-buffer",
        layer="code generation",
        defect="VectorizeLoop lets lanes share a buffer that is allocated inside of the loop, as dlight's schedule of "
        "poolings does.",
        effect="All four channels of a texel are added into one value: poolings are wrong.",
        upstream=SINCE,
        applies_to=TEXTURES,
    ),
    Repair(
        name="texture-vector-store",
        layer="code generation",
        defect="TextureFlatten loses the lane of a store, and VectorizeLoop makes four scalar stores of a vectorised one: "
        "each writes its value to all four lanes of the texel.",
        effect="Kernels with textures run and give wrong values.",
        upstream=SINCE,
        applies_to=TEXTURES,
    ),
    Repair(
        name="opencl-texel-values",
        layer="code generation",
        defect="The OpenCL code generator keeps the value of a texture store in a variable, by the text of the expression.",
        effect="All stores of an unrolled loop write what the local buffer held at the first.",
        upstream=SINCE,
        applies_to=TEXTURES,
    ),
    Repair(
        name="opencl-image-reads",
        layer="code generation",
        defect="Images are read without a sampler unless a kernel is compiled as OpenCL C 2.0 or 3.0, which drivers do only "
        "on request.",
        effect="A read outside of the image is undefined, and schedules read there what they do not use.",
        applies_to=TEXTURES,
    ),
    Repair(
        name="adreno-copies-as-reshapes",
        layer="graph",
        defect="A copy between a buffer and a texture is taken for a reshape without a kernel, or left to the runtime, which "
        "allocates memory for it.",
        effect="Networks crash, or take more memory than was planned.",
        applies_to=TEXTURES,
        no_probe="wrong on a device alone",
    ),
)
