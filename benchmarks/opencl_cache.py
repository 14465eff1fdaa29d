"""Time that the cache of compiled OpenCL programs saves in a package's first run, in new processes.

    python benchmarks/opencl_cache.py

The package is a chain of convolutions of different widths, compiled with TVM's default schedules, so that every kernel
is another one. The first run is timed without any cache, with empty ones (cold: it fills them), with this runtime's cache
alone (the driver's own is emptied before), with both, and with the driver's own alone. PoCL keeps a cache of its own;
drivers of phones do not.
Needs an OpenCL device.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

LAYERS = 8
REPEATS = 3

BUILD = """
import sys
import numpy as np
from tvmake.codegen.options import BuildOptions, PassOptions
from tvmake.codegen.link import generate
from tvmake.native.backend import opencl_library
import tvm
from tvmake.codegen.lowering import lower
library, layers = sys.argv[1], int(sys.argv[2])
opencl_library()
relax = tvm.relax
builder = relax.BlockBuilder()
x = relax.Var("x", relax.TensorType((1, 8, 28, 28), "float32"))
with builder.function("main", [x]):
    with builder.dataflow():
        value, width = x, 8
        for layer in range(layers):
            weight = np.zeros((9 + layer, width, 3, 3), "float32")
            value = builder.emit(relax.op.nn.relu(relax.op.nn.conv2d(value, relax.const(weight), padding=1)))
            width = 9 + layer
        result = builder.emit_output(value)
    builder.emit_func_output(result)
target = tvm.target.Target({"kind": "opencl"}, host={"kind": "llvm"})
made = lower(builder.get(), target, [], PassOptions())
generate(made.final, target, BuildOptions(), "benchmark").export_library(library)
"""

FIRST_RUN = """
import sys, time
import numpy as np
from tvmake.native.backend import opencl_library
import tvm
from tvm.runtime.vm import VirtualMachine
opencl_library()
device = tvm.opencl(0)
machine = VirtualMachine(tvm.runtime.load_module(sys.argv[1]), [device, tvm.cpu()])
x = tvm.runtime.tensor(np.zeros((1, 8, 28, 28), "float32"), device)
times = []
for run in range(2):
    began = time.perf_counter()
    machine["main"](x).numpy()
    times.append(time.perf_counter() - began)
print(device.device_name, *times, sep="\\t")
"""


def first_run(library: Path, home: Path, drivers: Path, empty_drivers: bool, is_on: bool) -> tuple[str, float, float]:
    """The device, and the seconds of the first and of the second run of a new process."""
    if empty_drivers:
        shutil.rmtree(drivers, ignore_errors=True)
    drivers.mkdir(exist_ok=True)
    environment = {
        **os.environ,
        "TVM_USE_RUNTIME_LIB": "1",
        "TVMAKE_HOME": str(home),
        "TVMAKE_OPENCL_CACHE": "1" if is_on else "0",
        "POCL_CACHE_DIR": str(drivers),
    }
    said = subprocess.run(
        [sys.executable, "-c", FIRST_RUN, str(library)], env=environment, check=True, capture_output=True, text=True
    ).stdout
    name, first, second = said.strip().split("\t")
    return name, float(first), float(second)


def main() -> None:
    """See the module's docstring."""
    from tvmake.native.parts import root

    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        library, drivers = directory / "net.so", directory / "pocl"
        subprocess.run([sys.executable, "-c", BUILD, str(library), str(LAYERS)], check=True, stderr=subprocess.DEVNULL)
        times: dict[str, list[float]] = {
            "no cache": [],
            "cold": [],
            "our cache": [],
            "both caches": [],
            "the driver's cache": [],
        }
        second: list[float] = []
        name = ""
        for repeat in range(REPEATS):
            home = directory / f"home{repeat}"
            home.mkdir()
            (home / "native").symlink_to(root())
            for case, empty, is_on in (
                ("no cache", True, False),
                ("cold", True, True),
                ("our cache", True, True),
                ("both caches", False, True),
                ("the driver's cache", False, False),
            ):
                name, first, again = first_run(library, home, drivers, empty, is_on)
                times[case].append(first)
                second.append(again)
        kept = list((home / "opencl").iterdir())
        size = sum(file.stat().st_size for file in kept)
    cold = statistics.median(times["cold"])
    print(f"{name}, {len(kept)} programs of {size / 1024:.0f} KiB in all, median of {REPEATS}")
    for case, seconds in times.items():
        median = statistics.median(seconds)
        print(f"first run, {case:20} {median * 1000:9.1f} ms   1/{cold / median:.0f}")
    print(f"second run {'':19} {statistics.median(second) * 1000:9.1f} ms")


if __name__ == "__main__":
    main()
