"""Networks on an OpenCL device: in this process, in others, over RPC, on several devices."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.children import WITHOUT_TORCH
from tests.native.opencl_device import ROOT, loaded, require_entry_point, run_python
from tests.native.opencl_forked import run_forked
from tests.native.opencl_network import RUN, Network, network
from tests.patience import HANG_S

CLOSE = 1e-5
TWO_DEVICES = {"POCL_DEVICES": "basic basic"}


@pytest.fixture(scope="module")
def tvm():
    return loaded()


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Network:
    return network(tmp_path_factory.mktemp("network"))


@pytest.fixture(scope="module")
def data(net: Network) -> Path:
    file = net.library.with_suffix(".npz")
    np.savez(file, image=net.image, output=net.output)
    return file


@pytest.mark.parametrize("memory", ["pooled", "naive"])
def test_a_network_computes_what_the_cpu_computes(tvm, net, memory):
    device = tvm.opencl(0)
    machine = tvm.relax.VirtualMachine(net.executable, [device, tvm.cpu()], memory_cfg=memory)
    for _ in range(3):
        output = machine["main"](tvm.runtime.tensor(net.image, device)).numpy()
        assert np.abs(output - net.output).max() < CLOSE


def test_the_evaluator_times_the_device(tvm, net):
    device = tvm.opencl(0)
    machine = tvm.relax.VirtualMachine(net.executable, [device, tvm.cpu()])
    image = tvm.runtime.tensor(net.image, device)
    began = time.perf_counter()
    timed = machine.time_evaluator("main", device, number=5, repeat=3)(image)
    spent = time.perf_counter() - began
    assert len(timed.results) == 3
    assert min(timed.results) > 0
    assert 15 * timed.mean < spent  # the device's time lies within the host's


def test_the_package_runs_in_a_new_process_that_has_only_the_runtime(net, data):
    assert run_python(RUN, net.library, data, TVM_USE_RUNTIME_LIB="1") == "right\n"


def test_the_package_runs_on_each_of_two_devices(net, data):
    for device in (0, 1):
        assert run_forked(RUN, net.library, data, device, **TWO_DEVICES) == "right\n"


def test_two_devices_work_at_once_and_tensors_go_between_them():
    output = run_forked(
        """
import numpy as np
from tests.native.opencl_device import kernels, loaded
tvm = loaded()
first, second = tvm.opencl(0), tvm.opencl(1)
assert first.exist and second.exist and not tvm.opencl(2).exist
add = kernels("// Function: add\\nkernel void add(global float* a, float b) { a[get_global_id(0)] += b; }\\n",
              add=(["handle", "float32"], ["blockIdx.x"]))["add"]
a, b = (tvm.runtime.tensor(np.zeros(100_000, "float32"), device) for device in (first, second))
for step in range(10):
    add(a, 1.0, 100_000)
    add(b, 2.0, 100_000)
assert (a.numpy() == 10).all() and (b.numpy() == 20).all()
a.copyto(b)
assert (b.numpy() == 10).all()
both = kernels("// Function: both\\nkernel void both(global float* a, global float* b) { a[0] = b[0]; }\\n",
               both=(["handle", "handle"], ["blockIdx.x"]))["both"]
try:
    both(a, b, 1)
except ValueError as error:
    print(str(error).splitlines()[-1])
""",
        **TWO_DEVICES,
    )
    assert "kernel 'both' got memory of two devices" in output


def test_a_server_of_tvm_runs_and_times_the_package_for_a_client(tvm, net, tmp_path):
    require_entry_point()
    from tvm import rpc

    ready = tmp_path / "port"
    with subprocess.Popen(
        [sys.executable, "-c", WITHOUT_TORCH + SERVE, str(ready)], cwd=ROOT, start_new_session=True
    ) as server:
        try:
            while not ready.is_file():
                assert server.poll() is None, "the server ended"
                time.sleep(0.1)
            remote = rpc.connect("127.0.0.1", int(ready.read_text()), session_timeout=HANG_S)
            remote.upload(str(net.library))
            device = remote.cl()
            assert device.exist
            machine = tvm.relax.VirtualMachine(remote.load_module("net.so"), [device, remote.cpu()])
            machine.set_input("main", tvm.runtime.tensor(net.image, device))
            machine.invoke_stateful("main")
            assert np.abs(machine.get_outputs("main").numpy() - net.output).max() < CLOSE
            timed = machine.time_evaluator("invoke_stateful", device, number=3, repeat=2)("main")
            assert 0 < min(timed.results) < 10
        finally:
            os.killpg(server.pid, signal.SIGKILL)


SERVE = """
import signal, sys
from pathlib import Path
from tvm import rpc
server = rpc.Server("127.0.0.1", 9400, 9500)
Path(sys.argv[1] + ".new").write_text(str(server.port))
Path(sys.argv[1] + ".new").rename(sys.argv[1])
signal.pause()
"""


def test_a_module_has_the_same_bytes_whether_the_runtime_is_loaded_or_not():
    code = """
import hashlib
import tvm
{load}
from tvm.script import ir as I
from tvm import te
a = te.placeholder((64,), name="a")
function = te.create_prim_func([a, te.compute((64,), lambda i: a[i] * 2.0, name="b")])
schedule = tvm.s_tir.Schedule(function)
(loop,) = schedule.get_loops(schedule.get_sblock("b"))
block, thread = schedule.split(loop, [None, 16])
schedule.bind(block, "blockIdx.x")
schedule.bind(thread, "threadIdx.x")
built = tvm.compile(schedule.mod, tvm.target.Target({{"kind": "opencl"}}, host={{"kind": "llvm"}}))
def all_of(module):
    yield module
    for one in module.imports:
        yield from all_of(one)
(ours,) = [module for module in all_of(built.mod) if module.kind == "opencl"]
kept = []
def keep(output, objects, **_):
    kept.extend(hashlib.sha256(open(file, "rb").read()).hexdigest() for file in objects)
    open(output, "w").close()
built.export_library("/dev/null", fcompile=keep)
print(ours.is_runnable(), *kept)
"""
    without = run_python(code.format(load=""), TVMAKE_HOME="/nowhere")
    with_runtime = run_python(code.format(load="from tests.native.opencl_device import loaded; loaded()"))
    assert without.split()[0] == "False"
    assert with_runtime.split()[0] == "True"
    assert len(without.split()) > 1
    assert with_runtime.split()[1:] == without.split()[1:]
