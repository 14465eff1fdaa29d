"""dlight's rule for reductions reads sums in the local memory of other threads."""

import sys
from itertools import product

import tvm
import tvm_ffi
from building import fused_kernel
from tvm import relax
from tvm.s_tir import dlight

op = relax.op
TARGET = tvm.target.Target("qcom/adreno-opencl")
TENSORS = ((1, 8, 1, 5, 7), "float32"), ((4, 4, 1, 1, 1), "float32"), ((1, 4, 1, 1, 1), "float32")


def grouped_volume(x, w, b):
    """A convolution in groups of an image with depth, and its bias."""
    return op.add(op.nn.conv3d(x, w, groups=2), b)


def elements_by_thread(schedule: tvm.s_tir.Schedule, name: str) -> dict[int, set[tuple[int, ...]]]:
    """The elements that each thread of the first group computes in a block."""
    loops = [schedule.get(loop) for loop in schedule.get_loops(schedule.get_sblock(name))]
    realizes: list = []
    tvm_ffi.structural_walk(schedule.mod["main"].body, (tvm.s_tir.SBlockRealize, realizes.append))
    (realize,) = [realize for realize in realizes if realize.block.name_hint == name]
    axes = zip(realize.block.iter_vars, realize.iter_values, strict=True)
    spatial = [value for axis, value in axes if axis.iter_type == tvm.tirx.IterVar.DataPar]
    tags = [str(loop.thread_binding.thread_tag) if loop.thread_binding is not None else "" for loop in loops]
    extents = [
        1 if tag in ("blockIdx.x", "threadIdx.y") else int(loop.extent) for tag, loop in zip(tags, loops, strict=True)
    ]
    elements: dict[int, set[tuple[int, ...]]] = {}
    for position in product(*map(range, extents)):
        values = dict(zip((loop.loop_var for loop in loops), position, strict=True))
        index = tuple(value_at(value, values) for value in spatial)
        elements.setdefault(position[tags.index("threadIdx.x")], set()).add(index)
    return elements


def value_at(expression, values) -> int:
    """The value of an expression of loop variables."""

    def known(variable):
        return tvm.tirx.IntImm("int64", values[variable]) if variable in values else variable

    return int(tvm.sym.Analyzer().simplify(tvm_ffi.structural_map(expression, (tvm.ir.Var, known))))


def still_needed() -> bool:
    schedule = dlight.gpu.Reduction().apply(fused_kernel(grouped_volume, *TENSORS), TARGET, False)
    if schedule is None:
        print("the rule leaves the kernel to another one")
        return False
    own, read = (elements_by_thread(schedule, name) for name in ("group_conv3d_ncdhw", "T_add"))
    for thread in own:
        print(f"thread {thread} sums {sorted(own[thread])} in its local memory and reads {sorted(read[thread])}")
    return own != read


if __name__ == "__main__":
    sys.exit(still_needed())
