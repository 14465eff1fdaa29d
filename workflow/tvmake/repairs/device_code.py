"""Defects of TVM's code generation for CUDA, OpenCL and other dialects of C."""

from tvmake.repairs.repair import Repair

DEVICE_CODE = (
    Repair(
        name="gathered-bytes",
        layer="code generation",
        defect="Code generators for dialects of C put bytes from different addresses together with shifts, as if a vector "
        "of them were a number (``CodeGenC::PrintVecElemLoadExpr``).",
        effect="OpenCL spreads the number to all lanes: convolutions of 8-bit integers are wrong.",
    ),
    Repair(
        name="narrow-integers",
        layer="code generation",
        defect="Code generators for dialects of C write arithmetic on 8 and 16 bits unchanged, which C computes in "
        "``int``.",
        effect="Multiplications do not wrap as on a processor, and OpenCL refuses ``select(a - 1, a, …)`` as ambiguous, to "
        "which every floor division is lowered.",
    ),
    Repair(
        name="cuda-half-remainders",
        layer="code generation",
        defect='The CUDA code generator has no remainder of float16: "Non single or double precision floating point in '
        'Mod".',
        effect="Such networks cannot be built.",
        applies_to=("cuda",),
    ),
    Repair(
        name="cuda-fast-math",
        layer="code generation",
        defect="NVIDIA's compilers are called with ``--use_fast_math``, in which ``powf`` is ``exp2(y * log2(x))``.",
        effect="Powers of negative values are NaN, as in the squares of an RMS norm or the cubes of a GELU.",
        applies_to=("cuda",),
    ),
    Repair(
        name="cuda-half-functions",
        layer="code generation",
        defect="The CUDA code generator puts an ``h`` before the name of a function of float16; CUDA has no ``hsinh`` or "
        "``hnearbyint``.",
        effect="The compiler refuses the kernel.",
        applies_to=("cuda",),
    ),
    Repair(
        name="cuda-vector-booleans",
        layer="code generation",
        defect="Four booleans of a vectorised loop are a ``ushort4``, eight bytes, which is written over the four bytes "
        "that they take.",
        effect="Other values are overwritten, and the address is misaligned.",
        applies_to=("cuda",),
    ),
    Repair(
        name="cuda-shared-fragments",
        layer="code generation",
        defect="Values of several dtypes share an array of shared memory, and there is no code for a fragment of one of "
        "them.",
        effect="Tensor cores with results of another dtype cannot be used through shared memory.",
        no_probe="no small reproducer yet",
        applies_to=("cuda",),
    ),
    Repair(
        name="cuda-half-gathers",
        layer="code generation",
        defect="The CUDA code generator has no code that gathers more than four values of float16.",
        effect="Convolutions in float16 cannot move eight values at once.",
        no_probe="no small reproducer yet",
        applies_to=("cuda",),
    ),
    Repair(
        name="opencl-math-names",
        layer="code generation",
        defect="Some functions are called by C's names for float32 (``atan2f``), which OpenCL does not have.",
        effect="The driver refuses the kernel.",
        applies_to=("opencl", "adreno-texture", "adreno-clml"),
    ),
    Repair(
        name="opencl-shared-alignment",
        layer="code generation",
        defect="Values of several dtypes share an array of shared memory, and integers are read by ``(__local int*)`` from "
        "an array of bytes that may begin anywhere. The CUDA source states the alignment, the OpenCL source does "
        "not.",
        effect="The driver of NVIDIA faults on some kernels of 8-bit networks.",
        applies_to=("opencl", "adreno-texture", "adreno-clml"),
    ),
    Repair(
        name="opencl-vector-booleans",
        layer="code generation",
        defect="True in a vector is -1 in OpenCL, and ``select`` goes by the highest bit of a lane. The code generator "
        "takes both for those of scalars.",
        effect='``(x > 0).astype("float32")`` is -1 in a vectorised loop, and choices take the wrong value.',
        applies_to=("opencl", "adreno-texture", "adreno-clml"),
    ),
    Repair(
        name="opencl-warps",
        layer="code generation",
        defect="From two threads a warp on, a reduction ends in a branch that only the first warp enters, with barriers "
        "that all threads of the group have to reach (``LowerThreadAllreduce``); OpenCL has no barrier for a warp.",
        effect="Some drivers run that, others hang or fault.",
        applies_to=("opencl", "adreno-texture", "adreno-clml"),
    ),
    Repair(
        name="assert-arguments",
        layer="code generation",
        defect="``tirx.AssertStmt`` takes kind, condition and message, and passes them in this order to a constructor that "
        "takes the condition first.",
        effect="Kernels cannot be given assertions from Python, unless the first two arguments are exchanged.",
    ),
    Repair(
        name="barriers-in-host-conditions",
        layer="code generation",
        defect="``ThreadSync`` runs before host and device are separated, and fails for a launch with a barrier inside a "
        'condition of the host: "Cannot insert syncs inside condition".',
        effect="A kernel cannot choose among launches at run time.",
        applies_to=("cuda", "opencl", "adreno-texture", "adreno-clml"),
    ),
    Repair(
        name="empty-launches",
        layer="runtime",
        defect="A launch whose grid has no work groups runs one (``LaunchParamConfig``).",
        effect="Kernels with a dimension of 0 access memory out of bounds: on CUDA, the program ends with an illegal address.",
        no_probe="needs a GPU",
        applies_to=("cuda", "opencl", "adreno-texture", "adreno-clml"),
    ),
)
