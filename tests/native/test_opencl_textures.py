"""A network with tensors in textures, as a package in other processes."""

from pathlib import Path

import numpy as np
import pytest

from tests.native.opencl_device import loaded
from tests.native.opencl_forked import run_forked
from tests.targets.adreno_texture.nets import conv, executable, lowered, op, tensor
from tests.tune.graphs import graph
from tests.unoptimised import UNOPTIMISED

INPUTS = [tensor(1, 8, 20, 20), tensor(16, 8, 3, 3), tensor(8, 16, 3, 3)]


def net(x, first, second):
    """Two convolutions and a pooling."""
    return op.nn.max_pool2d(conv(op.nn.relu(conv(x, first)), second), (2, 2), (2, 2))


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The package, and its input, weights and output."""
    tvm = loaded()
    from tvmake.codegen.weights import packed_weights

    random = np.random.default_rng(0)
    values = [random.standard_normal(shape).astype(dtype) for shape, dtype in INPUTS]
    on_cpu = tvm.relax.VirtualMachine(tvm.compile(graph(net, *INPUTS), target=UNOPTIMISED), tvm.cpu())
    output = on_cpu["main"](*map(tvm.runtime.tensor, values)).numpy()
    made = lowered(net, *INPUTS)
    names = [str(param.name) for param in made.fused["main"].params[1:]]
    weights = {f"x{number}": tvm.runtime.tensor(value) for number, value in enumerate(values[1:], 1)}
    packed = packed_weights(weights, made.packings, names) if made.packings else weights
    directory = tmp_path_factory.mktemp("textures")
    executable(made).export_library(str(directory / "net.so"))
    arguments = {f"argument{number}": packed[name].numpy() for number, name in enumerate(names, 1)}
    np.savez(directory / "net.npz", argument0=values[0], output=output, **arguments)
    return directory / "net.so", directory / "net.npz"


RUN = """
import resource, sys
from pathlib import Path
import numpy as np
import tvm
from tvmake.native.backend import opencl_library
from tvm.runtime.vm import VirtualMachine
opencl_library()
device = tvm.opencl(int(sys.argv[4]))
net = VirtualMachine(tvm.runtime.load_module(sys.argv[1]), device, memory_cfg=sys.argv[3])
data = np.load(sys.argv[2])
arguments = [tvm.runtime.tensor(data[f"argument{number}"], device) for number in range(len(data.files) - 1)]
for run in range(2000):
    net.set_input("main", *arguments)
    net.invoke_stateful("main")
    if run % 500 == 0:
        output = net.get_outputs("main").numpy()
        assert np.abs(output - data["output"]).max() < 1e-3, np.abs(output - data["output"]).max()
        print(int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() // 2**20)
"""


@pytest.mark.parametrize(("memory", "device"), [("pooled", 0), ("naive", 1)])
def test_a_texture_package_runs_in_a_new_process_again_and_again(package, memory, device):
    output = run_forked(RUN, *package, memory, device, POCL_DEVICES="basic basic")
    resident = list(map(int, output.split()))
    assert resident[-1] - resident[1] < 32  # MB; the textures of a thousand runs would be 77
