"""Defects of TVM's code generation for CPUs and for all targets."""

from tvmake.repairs.repair import Repair

CODE_GENERATION = (
    Repair(
        name="nan-comparisons",
        layer="code generation",
        defect="On CPUs the larger of two values is the first operand if it is larger, and the second one otherwise; "
        '``!=`` is "ordered and unequal".',
        upstream="https://github.com/apache/tvm/issues/19579",
        effect="ReLU of NaN is 0, maxima lose NaN, and NaN is equal to itself.",
        applies_to=("cpu",),
    ),
    Repair(
        name="cyclic-vector-indices",
        layer="code generation",
        defect="The LLVM of the wheel takes vectors of indices modulo a power of two for consecutive ones if they are "
        "behind a condition (seen with AVX2 and AVX-512).",
        effect="Transposed convolutions with a padding read beyond the tensor: wrong values.",
        applies_to=("cpu",),
    ),
    Repair(
        name="rounding-in-vectors",
        layer="code generation",
        defect="``nearbyint`` is not marked as vectorisable, so that loops with it are left to LLVM.",
        effect="Rounding is slow, and wrong in some loops (``cyclic-vector-indices``).",
    ),
    Repair(
        name="large-local-buffers",
        layer="code generation",
        defect="Local buffers of ``kMaxStackAlloca`` bytes (1,024) and more are allocated while a kernel runs.",
        effect="Sums of a tile for AVX-512 are in memory and not in registers.",
        applies_to=("cpu",),
    ),
    Repair(
        name="inlined-bindings",
        layer="code generation",
        defect="The value of a bound variable (``Let``, ``Bind``) is put in place of it wherever code generation "
        "simplifies.",
        effect="Functions of functions are computed many times.",
        applies_to=("cpu",),
    ),
    Repair(
        name="variables-bound-twice",
        layer="code generation",
        defect="VectorizeLoop visits the factors of a multiplication twice if it has to leave one in a loop, and takes the "
        "variables of its bindings for bound twice.",
        effect="Kernels with bindings inside of such a loop cannot be built.",
        no_probe="no small reproducer yet",
        applies_to=("cpu",),
    ),
    Repair(
        name="lost-partition-hints",
        layer="code generation",
        defect="NarrowDataType gives loops of int64 another variable and leaves ``pragma_loop_partition_hint`` with the "
        "former one; the kernels of Relax have no other loops.",
        effect="LoopPartition does not split incomplete vectors: right and slow.",
        applies_to=("cpu",),
    ),
    Repair(
        name="x86-dot-intrinsics",
        layer="code generation",
        defect="The intrinsics for dot products of bytes on x86 do not compile with the LLVM 22 of the wheel, whose "
        "operands are vectors of bytes.",
        effect="8-bit networks do not use VNNI.",
        no_probe="depends on the processor's instructions",
        applies_to=("cpu",),
    ),
    Repair(
        name="nested-select-simplification",
        layer="code generation",
        defect="A condition is simplified several times, each time with all choices (``Select``) within it.",
        effect="Kernels with nested choices take minutes to build.",
        no_probe="a matter of speed; no small reproducer yet",
    ),
    Repair(
        name="floor-division-below-zero",
        layer="code generation",
        defect="``arith.IterMapSimplify``, which FlattenBuffer uses, rounds divisions wrongly below zero: ``(7 - i) // 4 * "
        "4 + (7 - i) % 4`` becomes ``4 - i``.",
        effect="A reversal that is fused with a reshape reads wrong elements.",
    ),
    Repair(
        name="carries-of-divisions",
        layer="code generation",
        defect="Quotients and remainders of a sum keep terms that never carry: ``(64 * step + 4 * i + thread) % 384 // "
        "128`` for small ``i`` and ``thread``.",
        effect="Convolutions on GPUs compute the position in the kernel window, and a condition on it, for each value.",
    ),
    Repair(
        name="empty-reductions",
        layer="code generation",
        defect="The initial value of a reduction is stored in the first iteration of its loops.",
        effect="A sum over a dynamic dimension of 0 is what was in memory before.",
    ),
    Repair(
        name="extrema-of-infinities",
        layer="code generation",
        defect="Maxima begin with the smallest finite value, which max poolings also pad with.",
        effect="The maximum of a masked row is finite, and its softmax is wrong.",
    ),
    Repair(
        name="bfloat16-conversions",
        layer="code generation",
        defect="bfloat16 is computed in float32, and a conversion to it inside of a kernel is left out.",
        effect="``x.bfloat16().float()`` gives ``x``.",
    ),
    Repair(
        name="half-functions",
        layer="code generation",
        defect="The common rules for intrinsics call C's functions for float32 and float64 only.",
        effect='Networks with ``asinh`` and others in float16 end with "unknown intrinsic".',
    ),
)
