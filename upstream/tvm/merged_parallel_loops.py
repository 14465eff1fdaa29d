"""``Schedule.merge`` makes a serial loop of parallel ones."""

import sys

import tvm
from tvm import te


def still_needed() -> bool:
    x = te.placeholder((8, 8), name="x")
    first = te.compute((8, 8), lambda i, j: x[i, j] + 1, name="first")
    second = te.compute((8, 8), lambda i, j: x[i, j] * 2, name="second")
    schedule = tvm.s_tir.Schedule(te.create_prim_func([x, first, second]))
    loops = [schedule.get_loops(schedule.get_sblock(name))[0] for name in ("first", "second")]
    for loop in loops:
        schedule.parallel(loop)
    merged = schedule.get(schedule.merge(*loops))
    print(f"two parallel loops are merged to a {merged.kind!r} one")
    return merged.kind != tvm.tirx.ForKind.PARALLEL


if __name__ == "__main__":
    sys.exit(still_needed())
