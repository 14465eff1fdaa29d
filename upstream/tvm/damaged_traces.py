"""A damaged trace ends the process that replays it."""

import sys

import tvm
from building import elementwise, signal_of

DAMAGES = {
    "a loop split into pieces of zero": [
        [["GetSBlock", [], ["result", "main"], ["b0"]], ["GetLoops", ["b0"], [], ["l1"]],
         ["SamplePerfectTile", ["l1"], [2, 16], ["v2", "v3"]], ["Split", ["l1", "v2", "v3"], [1, 0], ["l4", "l5"]]],
        [[2, [0, 0]]],
    ],
    "an annotation without a name": [
        [["GetSBlock", [], ["result", "main"], ["b0"]], ["Unannotate", ["b0"], [None], []]],
        [],
    ],
}  # fmt: skip


def replay(trace: list) -> None:
    schedule = tvm.s_tir.Schedule(tvm.IRModule({"main": elementwise(lambda x: x + 1, 64, "float32")}))
    tvm.s_tir.Trace.apply_json_to_schedule(trace, schedule)


def still_needed() -> bool:
    signals = {name: signal_of(lambda trace=trace: replay(trace)) for name, trace in DAMAGES.items()}
    print(f"signals that end the process: {signals}")
    return any(signals.values())


if __name__ == "__main__":
    sys.exit(still_needed())
