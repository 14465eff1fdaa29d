"""Initial measurements of a search: the rules' schedule, and those of similar kernels."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import tvm
import tvm_ffi
from tvm import te, topi
from tvm.s_tir.dlight import ApplyDefaultSchedule

from tests.targets.cpu.schedules.nets import lowered
from tests.tune.search.test_search import DEVICE, MadeUp
from tvmake.codegen.scheduling.replay import replay
from tvmake.config.requests.tuning import SearchOptions
from tvmake.records.store import RecordStore
from tvmake.records.workload import Workload, workload
from tvmake.targets.backends import backend_of
from tvmake.targets.cpu.schedules.rule import schedule_kernel
from tvmake.targets.kernels.scheduled_kernel import IS_SCHEDULED
from tvmake.targets.weights.layout_free import ATTRIBUTE
from tvmake.tune.context import tuning_context
from tvmake.tune.measure.interface import Candidate, Measured
from tvmake.tune.receipts import EXHAUSTED
from tvmake.tune.search.nearest import Shape, nearest_tile
from tvmake.tune.search.search import Search
from tvmake.tune.search.starts import candidate, further_starts, starts_by_rule

FEW = 4
"""Trials that suffice to see whether a search starts from other kernels' schedules."""

CPU = tvm.target.Target({"kind": "llvm", "mcpu": "skylake-avx512"})
GPU = tvm.target.Target({"kind": "opencl", "max_num_threads": 256})
ADRENO = tvm.target.Target(
    {"kind": "opencl", "keys": ["adreno", "opencl", "gpu"], "device": "adreno", "max_num_threads": 256}
)


def convolution(pixels: int, channels: int = 32, dtype: str = "float32", target: tvm.target.Target = CPU) -> Workload:
    """3×3, with weights whose layout is free."""
    data = te.placeholder((1, pixels, pixels, channels), dtype, "data")
    weight = te.placeholder((3, 3, channels, 2 * channels), dtype, "weight")
    result = topi.nn.relu(topi.nn.conv2d_nhwc(data, weight, 1, 1, 1))
    return workload(te.create_prim_func([data, weight, result]).with_attr(ATTRIBUTE, [1]), target)


def matmul(rows: int) -> Workload:
    """A matmul with rows that the rules pad."""
    a, b = te.placeholder((rows, 192), "float32", "a"), te.placeholder((192, 192), "float32", "b")
    return workload(te.create_prim_func([a, b, topi.nn.matmul(a, b)]).with_attr(ATTRIBUTE, [1]), CPU)


def integer_matmul(target: tvm.target.Target = CPU) -> Workload:
    """Unsigned data and signed weights, with the target's instruction for them."""
    a, b = te.placeholder((12, 64), "uint8", "a"), te.placeholder((64, 96), "int8", "b")
    result = topi.nn.matmul(a, b, out_dtype="int32")
    return workload(te.create_prim_func([a, b, result]).with_attr(ATTRIBUTE, [1]), target)


def winograd() -> Workload:
    """A convolution in Winograd's form."""
    inputs = [((1, 32, 24, 24), "float32"), ((32, 32, 3, 3), "float32")]
    graph = lowered(lambda x, w: tvm.relax.op.nn.conv2d(x, w, padding=1), *inputs, target=CPU)
    return workload(graph.unscheduled["conv2d_winograd"], CPU)


def softmax() -> Workload:
    a = te.placeholder((16, 197), "float32", "a")
    return workload(te.create_prim_func([a, topi.nn.softmax(a)]), CPU)


def search(root: Path, kernel: Workload, measurer: MadeUp, trials: int, **options: object) -> Search:
    return Search(
        workload=kernel,
        context=tuning_context(kernel.target, DEVICE),
        store=RecordStore(root),
        measuring=lambda: nullcontext(measurer),
        device=DEVICE,
        options=SearchOptions(**{"batch": 4, "population": 16, **options}),
        trials=trials,
        target=backend_of(kernel.target).search_target(kernel.target, 2),
        threads=1,
    )


def origins(run: Search) -> list[str]:
    return [measured.record.strategy for measured in run.store.load(run.context, run.workload.key)]


def tune(root: Path, kernel: Workload, trials: int = 16) -> Search:
    """A finished search whose workload is described in the store."""
    run = search(root, kernel, MadeUp(), trials)
    run.store.define(run.context, kernel.key, {"name": "kernel", **Shape.of(kernel).description})
    run.run()
    return run


@pytest.mark.parametrize(
    "kernel", [convolution(28), convolution(7, 24), matmul(197), matmul(1), integer_matmul(), winograd(), softmax()]
)
def test_the_rules_schedule_is_a_record_like_any_other(kernel: Workload):
    (start,) = starts_by_rule(kernel)
    trace = json.loads(json.dumps(start.trace))
    assert tvm_ffi.structural_equal(replay(kernel, trace), schedule_kernel(kernel.module["main"], CPU))


def test_a_convolution_in_winograds_form_is_tuned_by_the_rules_tiles_alone(tmp_path: Path):
    every = search(tmp_path / "every", winograd(), MadeUp(), trials=100)
    assert every.run() == EXHAUSTED
    assert set(origins(every)) == {"rule", "tile"}
    count = len(origins(every))
    some = search(tmp_path / "some", winograd(), MadeUp(), trials=3)
    assert some.run() == "budget"
    assert len(origins(some)) == 3 < count


def test_measured_kernels_take_packed_weights():
    (start,) = starts_by_rule(convolution(28))
    weight = candidate(0, start.kernel).argument_sets()[0].tensors[1]
    assert len(weight.shape) == 5


def matmul_with_epilogue() -> Workload:
    """A matmul whose result several fused operators use."""
    a, b = te.placeholder((192, 192), "float32", "a"), te.placeholder((192, 192), "float32", "b")
    result = topi.nn.matmul(a, b)
    return workload(te.create_prim_func([a, b, result * topi.sigmoid(topi.exp(result))]), GPU)


@pytest.mark.parametrize(
    "kernel", [convolution(28, target=GPU), convolution(7, 24, target=GPU), matmul_with_epilogue()]
)
def test_kernels_for_gpus_have_an_initial_schedule(kernel: Workload):
    (start,) = starts_by_rule(kernel)
    trace = json.loads(json.dumps(start.trace))
    assert tvm_ffi.structural_equal(replay(kernel, trace), start.kernel)


def rows(function: Callable[[te.Tensor], te.Tensor], target: tvm.target.Target) -> Workload:
    """One step over 197 rows of 768 columns."""
    a = te.placeholder((197, 768), "float32", "a")
    return workload(te.create_prim_func([a, function(a)]), target)


@pytest.mark.parametrize("target", [GPU, ADRENO])
@pytest.mark.parametrize("function", [topi.exp, topi.nn.softmax, topi.transpose, lambda a: topi.exp(topi.sum(a, 1))])
def test_kernels_that_tvm_schedules_by_default_start_from_that(
    function: Callable[[te.Tensor], te.Tensor], target: tvm.target.Target
):
    kernel = rows(function, target)
    (start,) = starts_by_rule(kernel)
    replayed = replay(kernel, json.loads(json.dumps(start.trace)))
    with target:
        untuned = ApplyDefaultSchedule(*backend_of(target).default_rules())(kernel.module)["main"]
    assert tvm_ffi.structural_equal(replayed, untuned.without_attr(IS_SCHEDULED))


def test_a_kernel_without_parallelism_has_no_initial_schedule():
    a = te.placeholder((4, 16), "float32", "a")
    assert list(starts_by_rule(workload(te.create_prim_func([a, topi.cumsum(a, 1)]), GPU))) == []


def test_a_search_begins_with_the_rules_schedule(tmp_path: Path):
    run = search(tmp_path, convolution(28), MadeUp(), 9)
    assert run.run() == "budget"
    assert origins(run) == ["rule", *["tile"] * 4, *["evolutionary"] * 4]


@pytest.mark.parametrize("kernel", [convolution(28), matmul(197), integer_matmul()])
def test_other_tiles_of_the_rule_are_schedules_of_the_kernel(kernel: Workload):
    (first,) = starts_by_rule(kernel)
    others = {json.dumps(start.trace): start for start in further_starts(kernel)}
    others.pop(json.dumps(first.trace), None)
    assert len(others) > 2
    for trace, start in others.items():
        assert tvm_ffi.structural_equal(replay(kernel, json.loads(trace)), start.kernel)


def test_a_deadline_ends_the_initial_measurements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    now = iter(range(100))
    monkeypatch.setattr("tvmake.tune.search.search.time", SimpleNamespace(monotonic=lambda: next(now)))
    run = search(tmp_path, convolution(28), MadeUp(), 100, deadline_s=2)
    assert run.run() == "deadline"
    assert origins(run) == ["rule", "tile", "tile"]


def test_a_budget_of_one_is_the_rules_schedule(tmp_path: Path):
    kernel = matmul(4)
    run = search(tmp_path, kernel, MadeUp(), 1)
    assert run.run() == "budget"
    assert origins(run) == ["rule"]


def test_without_a_warm_start_there_are_no_initial_schedules(tmp_path: Path):
    run = search(tmp_path, convolution(28), MadeUp(), 4, warm_start=False)
    run.run()
    assert origins(run) == ["evolutionary"] * 4


def test_the_initial_schedule_is_measured_once_over_all_resumed_runs(tmp_path: Path):
    kernel = convolution(28)
    for trials in (3, 6, 20):
        run = search(tmp_path, kernel, MadeUp(), trials)
        run.run()
    tiles = {json.dumps(start.trace) for start in further_starts(kernel)}
    assert origins(run).count("rule") == 1
    assert origins(run).count("tile") == len(tiles)
    assert len(origins(run)) == 20


def test_a_search_continues_if_the_rules_schedule_fails(tmp_path: Path):
    measurer = MadeUp()

    def answer(measured: Candidate) -> Measured:
        if measurer.measured == 1:
            return Measured(measured.number, "build_error", error="no code for it")
        return MadeUp.latency(measured)

    measurer.answer = answer
    run = search(tmp_path, convolution(28), measurer, 5)
    assert run.run() == "budget"
    assert run.best_ms is not None


@pytest.fixture(scope="module")
def adopted(tmp_path_factory: pytest.TempPathFactory) -> Search:
    """A finished search of a kernel, after that of one with other extents."""
    root = tmp_path_factory.mktemp("store")
    tune(root, convolution(28), FEW)
    return tune(root, convolution(20))


def test_a_kernel_starts_from_one_with_other_extents(adopted: Search):
    assert set(origins(adopted)) == {"rule", "tile", "nearest", "evolutionary"}
    assert origins(adopted).index("nearest") == 1


def test_an_adopted_schedule_fits_the_kernels_own_extents(adopted: Search):
    stored = adopted.store.load(adopted.context, adopted.workload.key)
    traces = [measured.record.trace for measured in stored if measured.record.strategy == "nearest"]
    assert traces
    for trace in traces:
        replay(adopted.workload, trace)


@pytest.mark.parametrize(
    "other",
    [convolution(28, dtype="float16"), matmul(28)],
    ids=["another type", "another kernel"],
)
def test_other_kernels_give_no_initial_schedules(tmp_path: Path, other: Workload):
    tune(tmp_path, other, FEW)
    assert "nearest" not in origins(tune(tmp_path, convolution(20), FEW))


def test_a_damaged_description_is_passed_over(tmp_path: Path):
    kernel = convolution(28)
    run = search(tmp_path, kernel, MadeUp(), 4)
    run.store.define(run.context, kernel.key, {"name": "kernel", "pattern": Shape.of(kernel).pattern, "extents": ["x"]})
    run.run()
    assert "nearest" not in origins(tune(tmp_path, convolution(20), FEW))


@pytest.mark.parametrize(
    ("extent", "tile", "nearest"),
    [
        (56, [7, 2, 1, 4], [7, 2, 1, 4]),
        (112, [7, 2, 1, 4], [14, 2, 1, 4]),
        (7, [14, 1, 1, 4], [1, 1, 1, 7]),
        (1, [4, 4], [1, 1]),
        (60, [1, 64], [1, 60]),
    ],
)
def test_a_tiling_is_the_nearest_one(extent: int, tile: list[int], nearest: list[int]):
    assert nearest_tile(extent, tile) == nearest
