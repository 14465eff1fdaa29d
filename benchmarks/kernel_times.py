"""Time of each kernel in a package with dynamic dimensions beside a fixed one: what ``dynamic_dimensions.py --profile`` runs.

Kernels are calls that the virtual machine makes; those of both packages are paired by the operators in their names and by shape, in order. A
call's time is its minimum over the runs.
"""

import json
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from comparing import race_clock

LEAST_RUNS, LIMIT_S = 5, 5.0


@dataclass
class Call:
    """One call in a run of a package."""

    name: str
    shapes: str
    """Of its last argument, which is usually its output."""
    ms: float = float("inf")

    @property
    def kind(self) -> tuple[str, str]:
        """What the calls of two packages have in common: the name without what depends on a package, and the shape."""
        words = re.sub(r"\d+", "", self.name).split("_")
        return "_".join(word for word in words if word not in ("fused", "reshape", "winograd")), self.shapes


def time_calls(package: Any, values: list[np.ndarray], clock: Callable[[], float]) -> tuple[list[Call], float]:
    """The calls of a run, and the minimum of a whole run's ms without the instrument."""
    from tvmake.device.local.worker import BOOKKEEPING

    calls: list[Call] = []
    number, began = 0, 0.0

    def instrument(_function: Any, name: str, before: bool, _result: Any, *arguments: Any) -> None:
        nonlocal number, began
        if str(name).removeprefix("vm.builtin.") in BOOKKEEPING:
            return
        if before:
            began = clock()
            return
        ms = (clock() - began) * 1e3
        if number == len(calls):
            calls.append(Call(str(name), _shape(arguments)))
        calls[number].ms = min(calls[number].ms, ms)
        number += 1

    whole = []
    until = time.perf_counter() + LIMIT_S
    while len(whole) < LEAST_RUNS or time.perf_counter() < until:
        began = clock()
        package.outputs_of(values)
        whole.append((clock() - began) * 1e3)
    package.vm.set_instrument(instrument)
    until, runs = time.perf_counter() + LIMIT_S, 0
    while runs < LEAST_RUNS or time.perf_counter() < until:
        number, runs = 0, runs + 1
        package.outputs_of(values)
    return calls, min(whole)


def _shape(arguments: Sequence[Any]) -> str:
    tensors = [argument for argument in arguments if hasattr(argument, "shape") and hasattr(argument, "dtype")]
    return f"{'×'.join(str(extent) for extent in tensors[-1].shape)}" if tensors else ""


def matched(dynamic: Sequence[Call], fixed: Sequence[Call]) -> list[tuple[Call | None, Call | None]]:
    """Calls of two packages side by side; None where the other one has no such call."""
    peers: dict[tuple[str, str], list[Call]] = defaultdict(list)
    for call in reversed(fixed):
        peers[call.kind].append(call)
    pairs: list[tuple[Call | None, Call | None]] = [
        (call, peers[call.kind].pop() if peers[call.kind] else None) for call in dynamic
    ]
    return pairs + [(None, call) for calls in peers.values() for call in calls]


def rows(pairs: Sequence[tuple[Call | None, Call | None]]) -> list[tuple[float, float, float, int, str, str, str]]:
    """Difference, both times in ms, number of calls, both names and the output's shape, the largest difference first."""
    groups: dict[tuple[str, str, str], list[tuple[float, float]]] = defaultdict(list)
    for own, peer in pairs:
        names = (own.name if own else "–", peer.name if peer else "–", (own or peer or Call("", "")).shapes)
        groups[names].append((own.ms if own else 0.0, peer.ms if peer else 0.0))
    found = []
    for (name, peer_name, shape), times in groups.items():
        ours, theirs = (sum(column) for column in zip(*times, strict=True))
        found.append((ours - theirs, ours, theirs, len(times), name, peer_name, shape))
    return sorted(found, reverse=True)


def main() -> None:
    """See the module's docstring."""
    from dynamic_dimensions import draw_inputs, open_package, read_manifest

    job = json.loads(sys.argv[1])
    values = list(draw_inputs(read_manifest(job["packages"][0]), job["dims"]).values())
    clock = race_clock(job["threads"])
    (dynamic, own_ms), (fixed, peer_ms) = (time_calls(open_package(path), values, clock) for path in job["packages"])
    own_sum, peer_sum = sum(call.ms for call in dynamic), sum(call.ms for call in fixed)
    print(f"{job['network']} {job['dims']}, threads {job['threads']}, ms: dynamic {own_ms:.3f}, fixed {peer_ms:.3f}")
    print(f"in kernels: dynamic {own_sum:.3f} in {len(dynamic)} calls, fixed {peer_sum:.3f} in {len(fixed)} calls")
    print(f"{'difference':>10} {'dynamic':>9} {'fixed':>9} {'ratio':>6} {'calls':>5}  kernel")
    for difference, ours, theirs, count, name, peer_name, shape in rows(matched(dynamic, fixed)):
        quotient = f"{ours / theirs:6.2f}" if theirs and ours else "     –"
        named = name if name == peer_name else f"{name} | {peer_name}"
        print(f"{difference:10.4f} {ours:9.4f} {theirs:9.4f} {quotient} {count:5}  {named}  {shape}")


if __name__ == "__main__":
    main()
