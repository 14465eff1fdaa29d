"""Defects of TVM's schedules, of dlight and of MetaSchedule."""

from tvmake.repairs.repair import Repair

GPUS = ("cuda", "opencl", "adreno-texture", "adreno-clml", "metal")

SCHEDULES = (
    Repair(
        name="dlight-blocks-outside-threads",
        layer="schedule",
        defect="dlight's rules leave blocks outside of threads if a kernel has more blocks than a rule was written for; "
        "its rule for convolutions on Adreno moves only the last block into threads.",
        effect="Such a block runs on the host, on memory of the device: the kernel crashes or is wrong.",
        applies_to=GPUS,
    ),
    Repair(
        name="dlight-thread-extents",
        layer="schedule",
        defect="dlight's GEMV binds one kind of thread with different extents in one kernel.",
        effect="A launch has one extent, so that parts of the result are not computed.",
        applies_to=GPUS,
    ),
    Repair(
        name="dlight-epilogue-twice",
        layer="schedule",
        defect="dlight's fallback moves an epilogue into a sum of one element and computes it twice: where the sum starts, "
        "and with the element.",
        effect="A 1×1 convolution of one channel adds its bias twice.",
        applies_to=GPUS,
    ),
    Repair(
        name="dlight-sums-of-other-threads",
        layer="schedule",
        defect="dlight's rule for reductions divides a sum among threads in one way and its epilogue in another, and the "
        "sum is in the local memory of a thread.",
        effect="Grouped convolutions of volumes with a bias give wrong values.",
        applies_to=GPUS,
    ),
    Repair(
        name="repeated-results",
        layer="schedule",
        defect="``Schedule.reverse_compute_inline`` accepts a block that reads each result repeatedly, if dynamic dimensions "
        "divide its index.",
        effect="A kernel that scales images of dynamic size by a value for each channel writes the first pixel only.",
        applies_to=GPUS,
    ),
    Repair(
        name="merged-parallel-loops",
        layer="schedule",
        defect="``Schedule.merge`` makes a serial loop of parallel ones, and ``Schedule.parallel`` takes no loop around a "
        "reduction whose initialisation is separate.",
        effect="Kernels whose stages are scheduled apart run on one core.",
        applies_to=("cpu",),
    ),
    Repair(
        name="copies-of-tensorized-schedules",
        layer="schedule",
        defect="A schedule whose blocks were replaced by an intrinsic cannot be copied.",
        effect="Rules fail if they try a schedule after the intrinsic was put in.",
        applies_to=("cpu",),
    ),
    Repair(
        name="intrinsics-of-every-architecture",
        layer="schedule",
        defect="``TuneContext`` imports ``tvm.s_tir.tensor_intrin``, which registers the intrinsics of every architecture.",
        effect="Each process that builds or tunes takes 20 to 27 s to start, 15 s of them for CUDA.",
    ),
    Repair(
        name="damaged-traces",
        layer="schedule",
        defect="Replaying a trace with a decision of zero, an annotation without a name or a decision on a missing "
        "instruction ends the process or hangs.",
        effect="One damaged record of a hundred ends a build or a tuning job.",
    ),
    Repair(
        name="features-of-padded-weights",
        layer="schedule",
        defect="MetaSchedule extracts no features of kernels whose packed weights end in zeros.",
        effect="The cost model fails on such a kernel.",
        applies_to=("cpu",),
        no_probe="needs kernels with weights that tvmake has packed: tests/tune/verify/test_record_validation.py",
    ),
    Repair(
        name="compute-at-empty-strips",
        layer="schedule",
        defect="``compute_at`` takes an empty strip to have a last tile before its first: loops begin at "
        "``min(0, tiles - 1)`` and guard each step.",
        effect="The expression is in each index, and a build with Winograd's tiles takes three times as long.",
        applies_to=("cpu",),
        no_probe="a matter of speed; no small reproducer yet",
    ),
)
