"""Building a network with dynamic dimensions from tuning records: right at every size, and an accurate report."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm

from tests.networks.unpacked import build_unpacked
from tests.requirements import need
from tests.tune.replayed import record
from tvmake.artifact import stage_json
from tvmake.artifact.manifest import Manifest
from tvmake.artifact.module_files import load_module
from tvmake.artifact.range_traces import RangeSchedule, write_trace
from tvmake.codegen.lowering import fused_module, packs_weights
from tvmake.codegen.options import PassOptions
from tvmake.codegen.scheduling.apply import apply_best
from tvmake.config.requests.building import BuildRequest
from tvmake.config.target import TargetConfig
from tvmake.device.local.worker import LoadedPackage
from tvmake.frontend.options import ImportOptions
from tvmake.ir.bounds import with_bounds
from tvmake.native.backend import opencl_library
from tvmake.records.best import BestKernel, BestSet
from tvmake.records.workload import GENERATION, target_identity
from tvmake.stages.model.import_model import import_model
from tvmake.stages.model.transform import transform_model
from tvmake.targets.resolve import tvm_target
from tvmake.transform.options import TransformRequest
from tvmake.tune.extract import extract
from tvmake.tune.search.starts import starts_at_points

CPU, GPU = TargetConfig(kind="llvm", mcpu="x86-64-v3"), TargetConfig(tag="opencl-nvidia")
TUNED = {"llvm": 3, "opencl": 2}
"""Number of kernels with candidates: on GPUs, no rule schedules ranges of the softmax."""
WIDTH = 32


@pytest.fixture(scope="module")
def weights() -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.standard_normal((WIDTH, WIDTH)).astype("float32") for _ in range(2)]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory, weights: list[np.ndarray]) -> list[Path]:
    """Two matmuls of ``batch`` sequences of ``length`` tokens, and a softmax: module, parameters and signature."""
    directory = tmp_path_factory.mktemp("network")
    helper = onnx.helper
    shape = ["batch", "length", WIDTH]
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["one"]),
        helper.make_node("Relu", ["one"], ["two"]),
        helper.make_node("MatMul", ["two", "b"], ["three"]),
        helper.make_node("Softmax", ["three"], ["y"], axis=-1),
    ]
    values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in "xy"]
    constants = [onnx.numpy_helper.from_array(value, name) for value, name in zip(weights, "ab", strict=True)]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), directory / "n.onnx")
    imported = [directory / name for name in ("model.json", "model.params", "signature.json")]
    import_model(ImportOptions(source=str(directory / "n.onnx")), *imported, directory / "source.json")
    transformed = [directory / name for name in ("module.json", "module.params", "bound.json")]
    transform_model(*imported, TransformRequest(), *transformed)
    return transformed


@dataclass(frozen=True)
class Tuned:
    """A package with records."""

    directory: Path
    fused: tvm.IRModule
    target: tvm.target.Target
    records: BestSet


@pytest.fixture(scope="module", params=[CPU, GPU], ids=["CPU", "GPU"])
def package(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, network: list[Path]) -> Tuned:
    """A package with another tile than the rule's for each kernel that has one."""
    config = request.param
    if config is GPU:
        need("PoCL")
        opencl_library()
    target = tvm_target(config, "t")
    free = packs_weights(target)
    fused = fused_module(load_module(network[0]), target, [], PassOptions(), 1, layout_free=free)
    tasks, workloads = extract(fused, target)
    by_key = {one.key: one for one in workloads}

    def best(task: Any) -> BestKernel:
        if task.trivial:
            figures = {"reason": task.trivial}
        else:
            *_, last = starts_at_points(by_key[task.workload], task.points)
            figures = {"record": record(last.trace), "latency_ms": 1.0, "trials": 1}
        return BestKernel(workload=task.workload, name=task.names[0], calls=task.calls, flops=task.flops, **figures)

    records = BestSet(
        target=target_identity(target),
        generation=GENERATION,
        device_class="a test",
        kernels=tuple(best(task) for task in tasks),
    )
    directory = tmp_path_factory.mktemp("package")
    stage_json.save(records, directory / "best.json")
    request = BuildRequest(model="net", precision="float32", target_name="t", target=config)
    build_unpacked(*network, request, directory, directory / "best.json")
    return Tuned(directory, fused, target, records)


def manifest(directory: Path) -> Manifest:
    return stage_json.load(Manifest, directory / "mod.json")


def test_kernels_with_dynamic_dimensions_are_built_from_their_records(package: Tuned):
    read = manifest(package.directory)
    tuned = {kernel.name for kernel in package.records.kernels if kernel.record}
    assert len(tuned) >= TUNED[str(package.target.kind.name)]
    assert {kernel.name for kernel in read.kernels if kernel.is_tuned} == tuned
    assert read.coverage.tuned == read.coverage.tunable == len(tuned)
    assert read.coverage.misses == {}


@pytest.mark.parametrize(("batch", "length"), [(1, 1), (1, 2), (3, 5), (2, 64)])
def test_such_a_package_is_right_at_every_size(package: Tuned, weights: list[np.ndarray], batch: int, length: int):
    x = np.random.default_rng(1).standard_normal((batch, length, WIDTH)).astype("float32")
    loaded = LoadedPackage(package.directory, manifest(package.directory))
    (found,) = loaded.outputs_of([x])
    scores = np.maximum(x @ weights[0], 0) @ weights[1]
    expected = np.exp(scores - scores.max(-1, keepdims=True))
    np.testing.assert_allclose(found, expected / expected.sum(-1, keepdims=True), rtol=1e-4, atol=1e-5)


def test_without_tuning_such_kernels_are_tunable_and_not_tuned(network: list[Path], tmp_path: Path):
    build_unpacked(*network, BuildRequest(model="net", precision="float32", target_name="t", target=CPU), tmp_path)
    read = manifest(tmp_path)
    assert read.coverage.tunable >= 3 and read.coverage.tuned == 0
    assert set(read.coverage.misses.values()) == {"tuning is off"}


def change_records(package: Tuned, change: Callable[[list], list]) -> BestSet:
    """The records with another trace in each."""
    kernels = [
        kernel.model_copy(update={"record": kernel.record.model_copy(update={"trace": change(kernel.record.trace)})})
        if kernel.record
        else kernel
        for kernel in package.records.kernels
    ]
    return package.records.model_copy(update={"kernels": tuple(kernels)})


@pytest.mark.parametrize("package", [GPU], indirect=True, ids=["GPU"])
def test_records_that_do_not_suit_a_kernels_ranges_are_misses_with_the_reason(package: Tuned):
    unknown = change_records(package, lambda trace: write_trace([RangeSchedule(64, "Fragments", (8,))]))
    applied = apply_best(package.fused, package.target, unknown)
    assert not applied.tuned
    assert "the record names a rule that this version does not have: Fragments" in applied.misses.values()
    reverse = change_records(package, lambda trace: [[*trace[0], *trace[0]], []])
    applied = apply_best(package.fused, package.target, reverse)
    assert not applied.tuned
    assert any(reason.startswith("not ranges of sizes: their largest sizes are") for reason in applied.misses.values())


@pytest.mark.parametrize("package", [GPU], indirect=True, ids=["GPU"])
def test_records_with_narrow_indices_are_misses_if_the_bounds_allow_large_tensors(package: Tuned):
    large = with_bounds(package.fused, {"batch": (1, 1 << 20), "length": (1, 1 << 20)})
    misses = apply_best(large, package.target, package.records).misses.values()
    assert any("indices of 32 bits" in reason for reason in misses)
