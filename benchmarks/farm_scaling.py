"""Candidates per second against the number of devices behind one tracker, until building is the limit.

    python benchmarks/farm_scaling.py [--devices 1 2 3 4 6 8] [--latency-ms 2000] [--candidates 8] [--rounds 2]

The devices are real TVM RPC servers on this machine behind a real tracker. What makes them simulated is how they spend
their time: TVM's measurement loop runs each kernel REPEAT times and sleeps after each (``cooldown_ms``), so that one
candidate keeps a device busy for ``--latency-ms`` and no processor. Candidates are built for every measurement, as
always; the rate of building alone is measured beside it, and where devices could take more than that, building is the
limit: efficiency is the rate divided by what k devices, or the builders if they are slower, could do.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from tvmake.process.tvm_import import hide_torch_from_tvm

hide_torch_from_tvm()

import tvm
from comparing import machine
from farm import Farm, farm
from measuring import prepared

from tvmake.config.tuning import TrialMeasurement
from tvmake.device.fingerprint import usable_cores
from tvmake.tune.measure.builders import Builders, Kernel
from tvmake.tune.measure.interface import Candidate
from tvmake.tune.measure.remote import RPCMeasurer
from tvmake.tune.measure.scratch import Scratch

REPEAT = 3


def options(latency_ms: float) -> TrialMeasurement:
    """A measurement that takes so long and sleeps."""
    return TrialMeasurement(number=1, repeat=REPEAT, min_repeat_ms=0, cooldown_ms=latency_ms / REPEAT)


def building_rate(target: "tvm.target.Target", candidates: list[Candidate], builders: int) -> float:
    """Candidates built per second when nothing is timed."""
    scratch = Scratch()
    made = Builders(target, "g++", builders, 60, scratch.path)
    try:
        with made.building(candidates[:1]) as building:
            building.done.get()  # starting up is not counted
        began = time.perf_counter()
        with made.building(candidates) as building:
            outcomes = [building.done.get() for _ in candidates]
        seconds = time.perf_counter() - began
    finally:
        made.close()
        scratch.close()
    if not all(isinstance(outcome, Kernel) for outcome in outcomes):
        sys.exit(f"a candidate was not built: {outcomes}")
    return len(candidates) / seconds


def measuring_rate(
    target: "tvm.target.Target",
    candidates: list[Candidate],
    builders: int,
    devices: Farm,
    count: int,
    latency_ms: float,
) -> float:
    """Candidates measured per second on a number of devices."""
    with closing(RPCMeasurer(target, options(latency_ms), builders, devices.tracker, servers=count)) as measurer:
        for measured in measurer.measure(candidates[:1]):  # starting up is not counted
            if measured.error:
                sys.exit(measured.error)
        began = time.perf_counter()
        results = list(measurer.measure(candidates))
        seconds = time.perf_counter() - began
    if errors := [result.error for result in results if result.error]:
        sys.exit(errors[0])
    return len(candidates) / seconds


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, nargs="+", default=[1, 2, 3, 4, 6, 8])
    parser.add_argument("--latency-ms", type=float, default=2000.0)
    parser.add_argument("--candidates", type=int, default=8, help="per device, in one batch")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--builders", type=int, default=usable_cores())
    arguments = parser.parse_args()
    target, proposed = prepared(arguments.candidates * max(arguments.devices))
    candidates = [Candidate(number, one.sch.mod, list(one.args_info)) for number, one in enumerate(proposed)]
    figures: dict[str, list[float]] = {"building": [], **{str(count): [] for count in arguments.devices}}
    with tempfile.TemporaryDirectory() as directory, farm(Path(directory)) as devices:
        for number in range(arguments.rounds):
            rate = building_rate(target, candidates[: arguments.candidates * 2], arguments.builders)
            figures["building"].append(rate)
            for count in arguments.devices:
                devices.have(max(count, len(devices.servers)))
                batch = candidates[: arguments.candidates * count]
                rate = measuring_rate(target, batch, arguments.builders, devices, count, arguments.latency_ms)
                figures[str(count)].append(rate)
                print(f"round {number + 1}/{arguments.rounds}: {count} devices, {rate:.2f} a second", file=sys.stderr)
    report(figures, arguments.devices, arguments.latency_ms)


def report(figures: dict[str, list[float]], devices: list[int], latency_ms: float) -> None:
    """Print rates, ratios and the limit; then the same as one JSON line."""
    rates = {name: statistics.median(values) for name, values in figures.items()}
    one, building = rates[str(devices[0])] / devices[0], rates["building"]
    print(f"\n{latency_ms:g} ms a candidate ({machine()})")
    print(f"  building alone {building:6.2f} candidates/s, enough for {building / one:.1f} devices")
    for count in devices:
        rate = rates[str(count)]
        limit = "building" if count * one > building else "devices"
        possible = min(count * one, building)
        print(
            f"  {count:2} devices {rate:7.2f} candidates/s   {rate / one:5.2f} x one device   per device {rate / one / count:5.2f}"
            f"   limit: {limit}, of which {rate / possible:4.0%}"
        )
    print(json.dumps({"latency_ms": latency_ms, "figures": figures, "where": machine()}))


if __name__ == "__main__":
    os.environ.setdefault("TVMAKE_HOME", tempfile.mkdtemp())
    main()
