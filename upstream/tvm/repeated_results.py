"""``reverse_compute_inline`` accepts a block that reads a result repeatedly, if dynamic dimensions divide its index."""

import sys

import tvm
from tvm.script import tirx as T


@T.prim_func(s_tir=True)
def scaled_rows(a: T.handle, c: T.handle) -> None:
    rows, columns = T.int64(), T.int64()
    A = T.match_buffer(a, (rows, 4))
    C = T.match_buffer(c, (rows, columns))
    B = T.sblock_alloc_buffer((rows,))
    for i, j in T.grid(rows, 4):
        with T.sblock("sum"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vj]
    for element in range(rows * columns):
        with T.sblock("scale"):
            v = T.axis.spatial(rows * columns, element)
            C[v // columns, v % columns] = B[v // columns] * T.float32(2)


def still_needed() -> bool:
    schedule = tvm.s_tir.Schedule(scaled_rows)
    written = schedule.cache_write(schedule.get_sblock("sum"), 0, "local")
    try:
        schedule.reverse_compute_inline(schedule.get_sblock("scale"))
    except tvm.s_tir.ScheduleError:
        return False
    # A loop over the rows only.
    print(schedule.mod["main"])
    return len(schedule.get_loops(written)) == 1


if __name__ == "__main__":
    sys.exit(still_needed())
