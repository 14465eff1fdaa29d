"""dlight's rule for convolutions on Adreno leaves blocks outside of threads."""

import sys

import tvm
from building import network
from textures import TARGET, conv
from tvm import relax
from tvm.s_tir import dlight

op = relax.op
THREAD = tvm.tirx.ForKind.THREAD_BINDING


def forked(x, w):
    """A convolution whose result is used twice: more than one block follows its sum."""
    y = op.nn.relu(conv(x, w))
    return op.add(op.exp(y), op.sigmoid(y))


def unbound(schedule: tvm.s_tir.Schedule) -> int:
    """Blocks of a schedule without a thread around them."""
    blocks = schedule.get_child_blocks(schedule.get_sblock("root"))
    return sum(not any(schedule.get(loop).kind == THREAD for loop in schedule.get_loops(block)) for block in blocks)


def still_needed() -> bool:
    with TARGET:
        passes = [
            step
            for step in relax.backend.adreno.legalize_passes(TARGET)
            if "ApplyDefaultSchedule" not in str(step.info.name)
        ]
        fused = tvm.transform.Sequential(passes)(network(forked, ((1, 8, 8, 8), "float32"), ((8, 8, 3, 3), "float32")))
    schedules = [
        dlight.adreno.Conv2d().apply(function, TARGET, False)
        for _, function in fused.functions_items()
        if isinstance(function, tvm.tirx.PrimFunc)
    ]
    found = sum(unbound(schedule) for schedule in schedules if schedule is not None)
    print(f"{found} blocks are outside of threads")
    return found > 0


if __name__ == "__main__":
    sys.exit(still_needed())
