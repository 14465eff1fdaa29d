"""Each kernel by itself: the first wrong one is found, and whether its schedule is at fault."""

from dataclasses import replace

import numpy as np
import pytest
import tvm

from tests.native.opencl_device import POCL, library
from tests.process.fixtures import shared_servers  # noqa: F401  # a fixture
from tests.tune.graphs import graph, kept, kernel
from tvmake.codegen.lowering import Lowered, lower
from tvmake.codegen.options import BuildOptions
from tvmake.codegen.weights import packed_weights
from tvmake.config.target import TargetConfig
from tvmake.debug.kernels import first_wrong_kernel
from tvmake.debug.relax_values import Trace, trace_kernels
from tvmake.targets.resolve import tvm_target
from tvmake.tune.verify.kernel_runner import LocalKernelRunner

pytestmark = pytest.mark.usefixtures("shared_servers")

F32 = "float32"
op = tvm.relax.op
HERE = tvm.target.Target({"kind": "llvm"})
SHAPES = (((1, 8, 10, 10), F32), ((16, 8, 3, 3), F32), ((100, 1600), F32))
RANDOM = np.random.default_rng(0)


def values(shape: tuple[int, ...]) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def network(x, w, v):
    return op.matmul(op.reshape(op.nn.softmax(op.nn.conv2d(x, w, padding=1)), (1, 1600)), op.permute_dims(v))


@pytest.fixture(scope="module")
def lowered() -> Lowered:
    return lower(kept(graph(network, *SHAPES)), HERE, (), BuildOptions(), 3)


@pytest.fixture(scope="module")
def trace(lowered: Lowered) -> Trace:
    return trace_kernels(lowered.unscheduled, [values(shape) for shape, _ in SHAPES])


def test_right_kernels_are_right_on_the_values_that_a_network_has(lowered: Lowered, trace: Trace):
    assert lowered.ruled
    assert first_wrong_kernel(lowered, trace.steps, HERE, LocalKernelRunner()) is None


def test_kernels_whose_weights_the_build_packs_are_right_too():
    packed = lower(graph(network, *SHAPES), HERE, (), BuildOptions(), 1)
    x, *weights = [values(shape) for shape, _ in SHAPES]
    names = [str(parameter.name) for parameter in packed.unscheduled["main"].params[1:]]
    parameters = {name: tvm.runtime.tensor(weight) for name, weight in zip(("x1", "x2"), weights, strict=True)}
    packed_parameters = packed_weights(parameters, packed.packings, names)
    assert packed_parameters.keys() != parameters.keys()
    steps = trace_kernels(packed.unscheduled, [x, *(tensor.numpy() for tensor in packed_parameters.values())]).steps
    assert first_wrong_kernel(packed, steps, HERE, LocalKernelRunner()) is None


def test_kernels_of_a_gpu_are_taken_as_the_package_has_them(monkeypatch: pytest.MonkeyPatch):
    library()
    monkeypatch.setenv("TVMAKE_OPENCL_PLATFORM", POCL)
    target = tvm_target(TargetConfig(tag="adreno-730-texture"), "targets.t")
    textures = lower(graph(network, *SHAPES), target, (), BuildOptions(), 3)
    steps = trace_kernels(textures.unscheduled, [values(shape) for shape, _ in SHAPES]).steps
    assert first_wrong_kernel(textures, steps, target, LocalKernelRunner(device="opencl")) is None


def test_a_wrong_schedule_is_named_with_its_kernel(lowered: Lowered, trace: Trace):
    name = next(name for name in lowered.ruled if "softmax" in name)
    wrong = kernel(
        lambda x: op.multiply(op.nn.softmax(x), tvm.relax.const(1.1, F32)), ((1, 16, 10, 10), F32), target=HERE
    )
    fused = tvm.IRModule({**lowered.fused.functions, lowered.fused.get_global_var(name): wrong})
    fault = first_wrong_kernel(replace(lowered, unpacked=fused), trace.steps, HERE, LocalKernelRunner())
    assert fault is not None
    assert (fault.step.kernel, fault.schedule, fault.is_right_unscheduled) == (name, "rule", True)
    assert 0.01 < fault.error < 1


def test_a_kernel_that_is_wrong_whatever_its_schedule_is_the_code_generators(lowered: Lowered, trace: Trace):
    """A runner with wrong results, as of a wrong driver."""

    class Driver(LocalKernelRunner):
        def run(self, *arguments, **options):
            return [value * np.float32(1.5) for value in super().run(*arguments, **options)]

    fault = first_wrong_kernel(lowered, trace.steps, HERE, Driver())
    assert fault is not None
    assert fault.step is next(step for step in trace.steps if step.kernel)
    assert not fault.is_right_unscheduled
