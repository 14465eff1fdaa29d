"""A schedule whose blocks were tensorized cannot be copied."""

import sys

import tvm
from tvm import te
from tvm.script import tirx as T


@T.prim_func(s_tir=True)
def described(a: T.handle, b: T.handle) -> None:
    data = T.match_buffer(a, (4,), "float32", offset_factor=1)
    result = T.match_buffer(b, (4,), "float32", offset_factor=1)
    with T.sblock("root"):
        T.reads(data[0:4])
        T.writes(result[0:4])
        for index in range(4):
            with T.sblock("result"):
                at = T.axis.remap("S", [index])
                result[at] = data[at] + T.float32(1)


@T.prim_func(s_tir=True)
def computed(a: T.handle, b: T.handle) -> None:
    data = T.match_buffer(a, (4,), "float32", offset_factor=1)
    result = T.match_buffer(b, (4,), "float32", offset_factor=1)
    with T.sblock("root"):
        T.reads(data[0:4])
        T.writes(result[0:4])
        result[T.Ramp(0, 1, 4)] = data[T.Ramp(0, 1, 4)] + T.Broadcast(T.float32(1), 4)


def still_needed() -> bool:
    tvm.s_tir.TensorIntrin.register("add_four", described, computed)
    x = te.placeholder((16,), name="x")
    schedule = tvm.s_tir.Schedule(te.create_prim_func([x, te.compute((16,), lambda i: x[i] + 1, name="result")]))
    _, lanes = schedule.split(schedule.get_loops(schedule.get_sblock("result"))[0], [None, 4])
    schedule.tensorize(lanes, "add_four")
    try:
        schedule.copy()
    except Exception as error:
        print(str(error).strip().splitlines()[-1])
        return True
    print("copied")
    return False


if __name__ == "__main__":
    sys.exit(still_needed())
