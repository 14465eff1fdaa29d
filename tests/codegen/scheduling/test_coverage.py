"""The share of a build that is covered, from measurements or from operation counts."""

import pytest
import tvm

from tests.tune.graphs import CPU, graph
from tests.tune.replayed import kernels
from tvmake.artifact.manifest import Coverage
from tvmake.codegen.kernel_analysis import work
from tvmake.codegen.lowering import Lowered, fused_module
from tvmake.codegen.options import PassOptions
from tvmake.codegen.scheduling.coverage import coverage, require
from tvmake.errors import InputError
from tvmake.records.best import BestKernel, BestSet
from tvmake.records.workload import GENERATION, target_identity, workload

op = tvm.relax.op
F32 = "float32"


@pytest.fixture(scope="module")
def module() -> "tvm.IRModule":
    """A small matmul called twice, a large one, and a reshape."""

    def expression(x, small, large):
        x = op.matmul(op.matmul(x, small), small)
        return op.reshape(op.matmul(x, large), (640,))

    return fused_module(
        graph(expression, ((10, 32), F32), ((32, 32), F32), ((32, 64), F32)), CPU, [], PassOptions(), 1, False
    )


def lowered(module: "tvm.IRModule", *tuned: str, **misses: str) -> Lowered:
    return Lowered(module, module, module, dict.fromkeys(tuned, "0" * 64), misses)


def known(module: "tvm.IRModule", **figures: dict[str, float]) -> BestSet:
    found = [
        BestKernel(workload=workload(function, CPU).key, name=name, calls=1, flops=1, **figures.get(name, {}))
        for name, function in kernels(module).items()
    ]
    return BestSet(target=target_identity(CPU), generation=GENERATION, device_class="test", kernels=tuple(found))


def names(module: "tvm.IRModule") -> tuple[str, str]:
    small, large = sorted((name for name in kernels(module) if name != "reshape"), key=lambda n: work(module[n]))
    return small, large


def test_without_measurements_operations_represent_time(module):
    small, large = names(module)
    operations = {name: work(module[name]) for name in (small, large)}
    got = coverage(lowered(module, large), CPU, known(module))
    assert (got.tuned, got.tunable, got.basis) == (1, 2, "operations")
    share = operations[large] / (2 * operations[small] + operations[large])
    assert got.time_share == pytest.approx(share, abs=1e-4)
    assert list(got.misses) == [small]
    assert got.not_tunable == {"reshape": "it is a reshape, which costs nothing"}


def test_measured_times_count_with_the_calls(module):
    small, large = names(module)
    times = {small: {"latency_ms": 3.0}, large: {"latency_ms": 2.0}}
    got = coverage(lowered(module, small), CPU, known(module, **times))
    assert got.basis == "latency"
    assert got.time_share == pytest.approx(2 * 3 / (2 * 3 + 2), abs=1e-4)


def test_where_only_tuned_kernels_were_timed_the_others_are_estimated_by_their_operations(module):
    small, large = names(module)
    got = coverage(lowered(module, small), CPU, known(module, **{small: {"latency_ms": 1.0}}))
    guessed = 1.0 * work(module[large]) / work(module[small])
    assert got.time_share == pytest.approx(2 / (2 + guessed), abs=1e-4)


def test_misses_come_slowest_first_with_their_reasons(module):
    small, large = names(module)
    times = {small: {"latency_ms": 5.0}, large: {"latency_ms": 1.0}}
    got = coverage(lowered(module, **{large: "no luck"}), CPU, known(module, **times))
    assert list(got.misses.items()) == [(small, "tuning is off"), (large, "no luck")]
    assert got.time_share == 0


def test_everything_tuned_covers_everything(module):
    got = coverage(lowered(module, *names(module)), CPU, known(module))
    assert (got.time_share, got.misses) == (1.0, {})
    require(1.0, got, "net")


def test_nothing_to_tune_is_nothing_missed():
    plain = fused_module(graph(lambda x: op.reshape(x, (640,)), ((10, 64), F32)), CPU, [], PassOptions(), 1, False)
    got = coverage(lowered(plain), CPU, None)
    assert (got.tuned, got.tunable, got.time_share) == (0, 0, 1.0)
    require(1.0, got, "net")


def test_too_little_is_refused_with_the_slowest_misses():
    misses = {f"kernel_{number}": "no luck" for number in range(8)}
    got = Coverage(tuned=2, tunable=10, time_share=0.4, basis="latency", misses=misses)
    require(None, got, "net")
    require(0.4, got, "net")
    with pytest.raises(InputError, match=r"cover 40.0% .* asks for 50.0%.*kernel_0 \(no luck\).* and 3 more"):
        require(0.5, got, "net/float32/cpu")
