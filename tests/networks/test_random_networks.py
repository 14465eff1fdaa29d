"""benchmarks/random_networks.py: some of its networks, and whether it would see what must not be."""

import json
import mmap
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.patience import HANG_S
from tests.requirements import need
from tvmake.config.validation import goals_for
from tvmake.errors import InputError

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from random_graphs import onnx_kinds  # noqa: E402
from random_graphs.drawing import KINDS, drawn  # noqa: E402
from random_graphs.dynamic import drawn_dynamic, extents, sizes, suits_onnx  # noqa: E402
from random_graphs.network import Input, Network, Step  # noqa: E402
from random_graphs.onnx_nodes import session  # noqa: E402
from random_graphs.reference import is_judgeable, problem  # noqa: E402
from random_graphs.shrinking import shrunk  # noqa: E402
from random_graphs.trying import MEMORY_BYTES, Subject, of_onnx, tried  # noqa: E402

BAD = {"wrong", "crashed", "timeout", "failed"}


def outcomes(*options: str) -> dict[str, int]:
    """How many networks came to what."""
    command = [sys.executable, str(BENCHMARKS / "random_networks.py"), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.stdout, done.stderr
    counts: dict[str, int] = json.loads(done.stdout.splitlines()[-1])["counts"]
    assert not BAD & counts.keys(), done.stdout
    return counts


@pytest.mark.long
@pytest.mark.parametrize("source", ["torch", pytest.param("onnx", marks=pytest.mark.soak)])
def test_random_networks_are_right_on_a_cpu(source):
    counts = outcomes("--source", source, "--networks", "8", "--targets", "llvm")
    assert counts["right"] >= 7


@pytest.mark.long
@pytest.mark.parametrize("source", [pytest.param("torch", marks=pytest.mark.soak), "onnx"])
def test_random_networks_with_dynamic_dimensions_are_right_on_a_cpu(source):
    counts = outcomes("--source", source, "--dynamic", "--networks", "8", "--targets", "llvm")
    assert counts["right"] >= 5


@pytest.mark.soak
@pytest.mark.parametrize("source", ["torch", "onnx"])
@pytest.mark.parametrize("target", ["llvm", "opencl", "adreno-730-buffer", "adreno-730-texture"])
def test_many_random_networks_are_right_on_every_target(source, target):
    need("PoCL")
    counts = outcomes("--source", source, "--networks", "500", "--targets", target)
    assert counts["right"] >= 450


@pytest.mark.parametrize("kinds", [KINDS, onnx_kinds.KINDS], ids=["torch", "onnx"])
def test_a_seed_always_gives_the_same_network(kinds):
    assert [str(drawn(seed, kinds)) for seed in range(3)] == [str(drawn(seed, kinds)) for seed in range(3)]
    assert str(drawn(0, kinds)) != str(drawn(1, kinds))


def test_a_dynamic_network_is_run_at_its_smallest_sizes_at_odd_ones_and_at_its_bounds():
    network = drawn_dynamic(0, onnx_kinds.KINDS, suits_onnx)
    assert str(network) == str(drawn_dynamic(0, onnx_kinds.KINDS, suits_onnx))
    drawn_with = extents(network)
    least, odd, bounds = sizes(network)
    assert 1 <= len(drawn_with) <= 3
    assert all(1 <= least[name] < extent < odd[name] <= bounds[name] for name, extent in drawn_with.items())
    shapes = [[tuple(value.shape) for value in network.examples(size)] for size in (least, odd, bounds)]
    assert len(set(map(tuple, shapes))) == 3
    of_onnx(network, onnx_kinds.KINDS)  # ONNX Runtime computes all of them


def test_what_rounding_decides_is_not_judged():
    argmax = Step("argmax", (0,), {"dim": 1, "keepdim": False})
    numbers = Network((Input((2, 500)),), (argmax,), (1,))
    ties = Network((Input((2, 500)),), (Step("floor", (0,)), replace(argmax, operands=(1,))), (2,))
    assert is_judgeable(numbers, KINDS, "float32")
    assert not is_judgeable(ties, KINDS, "float32")


def test_another_value_shape_or_type_is_a_problem():
    goals, expected = goals_for("float32"), np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    assert problem([expected], [expected.copy()], goals) is None
    assert "off by" in str(problem([expected], [expected + 0.1 * np.eye(3, 4, dtype=np.float32)], goals))
    assert problem([expected], [expected.astype(np.float64)], goals)
    assert problem([expected], [expected.ravel()], goals)
    assert problem([expected], [], goals)


def refused() -> Any:
    raise InputError("networks.random", "is refused", "draw another")


def using_memory() -> Subject:
    np.empty(2 * MEMORY_BYTES, "uint8")
    return Subject(refused, [], [], lambda _: True)


def reserving_addresses() -> Subject:
    """As CUDA does, for all memory of the machine and its GPUs."""
    mmap.mmap(-1, 1 << 40, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=0)
    return Subject(refused, [], [], lambda _: True)


def test_memory_is_limited_and_addresses_are_not():
    assert [one.outcome for one in tried(using_memory, ["llvm"], ["float32"])] == ["crashed"]
    assert [one.outcome for one in tried(reserving_addresses, ["llvm"], ["float32"])] == ["refused"]


loaded: list[str] = []


def in_a_fresh_process() -> Subject:
    assert not loaded, "as in a fork"
    return reserving_addresses()


def test_what_uses_cuda_is_no_fork(monkeypatch):
    """TVM opens CUDA as it loads."""
    monkeypatch.setattr(sys.modules[__name__], "loaded", ["tvm"])
    for target, outcome in {"llvm": "crashed", "cuda-sm90": "refused"}.items():
        assert [one.outcome for one in tried(in_a_fresh_process, [target], ["float32"])] == [outcome], target


def taking_long() -> Subject:
    time.sleep(HANG_S)
    return reserving_addresses()


@pytest.mark.parametrize("target", ["llvm", "cuda-sm90"])
def test_what_takes_too_long_is_ended(target):
    assert [one.outcome for one in tried(taking_long, [target], ["float32"], limit_s=1)] == ["timeout"]


def test_a_network_is_made_as_small_as_what_is_wrong_with_it():
    blocks = [
        Step("conv2d", (0,), {"out_channels": 4, "kernel_size": 3, "padding": 1}, 1),
        Step("batch_norm", (1,), {"affine": True}, 2),
        Step("gelu", (2,)),
        Step("add", (3, 1)),
        Step("mean", (4,), {"dim": (2, 3), "keepdim": False}),
    ]
    network = Network((Input((2, 3, 8, 8)),), tuple(blocks), (4, 5))
    small = shrunk(network, KINDS, lambda candidate: any(step.kind == "gelu" for step in candidate.steps))
    assert [step.kind for step in small.steps] == ["gelu"]
    assert small.inputs[0].shape == (1, 1, 1, 1)


def test_a_network_that_onnx_runtime_refuses_is_not_judged():
    def refused() -> Subject:
        node = helper.make_node("Relu", ["nowhere"], ["y"])
        output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
        session(helper.make_model(helper.make_graph([node], "net", [], [output])))
        raise AssertionError("it was refused")

    (found,) = tried(refused, ["llvm"], ["float32"])
    assert found.outcome == "unjudged" and found.cause.startswith("ONNX Runtime refuses it: ")
