"""The sizes of dynamic dimensions at which kernels are tuned."""

from typing import Any

import pytest
import tvm

from tests.tune.dynamic import F32, dim, op, points
from tests.tune.graphs import CPU, graph, kept
from tvmake.codegen import size_points
from tvmake.codegen.lowering import fused_module
from tvmake.codegen.options import PassOptions
from tvmake.codegen.size_points import kernel_points, network_points, values_of_shapes
from tvmake.ir.bounds import with_bounds


def fused(expression: Any, *inputs: Any, bounds: dict[str, tuple[int, int | None]] | None = None) -> "tvm.IRModule":
    """A network as calls of fused kernels."""
    module = with_bounds(kept(graph(expression, *inputs)), bounds or {})
    return fused_module(module, CPU, [], PassOptions(), 1, layout_free=False)


def dense(bounds: dict[str, tuple[int, int | None]] | None = None) -> "tvm.IRModule":
    """A matmul of ``batch`` sequences of ``length`` tokens."""
    inputs = (((dim("batch"), dim("length"), 16), F32), ((16, 16), F32))
    return fused(lambda x, w: op.matmul(x, w), *inputs, bounds=bounds)


def sizes(module: "tvm.IRModule", **options: Any) -> list[dict[str, int]]:
    """The sizes of a network's points."""
    return [dict(point.sizes) for point in network_points(module, **options)]


def test_without_bounds_sizes_are_spread_up_to_the_typical_one():
    assert [one["length"] for one in sizes(dense({"batch": (1, 1)}))] == [1, 3, 15, 63, 256]


def test_sizes_are_spread_over_the_bounds_and_include_both():
    assert [one["length"] for one in sizes(dense({"batch": (1, 1), "length": (32, 512)}))] == [32, 63, 127, 255, 512]
    assert [one["length"] for one in sizes(dense({"batch": (1, 1), "length": (7, 8)}))] == [7, 8]


def test_all_points_count_the_same():
    assert {point.weight for point in network_points(dense())} == {0.2}


def test_a_smallest_size_of_0_is_not_measured():
    assert min(one["length"] for one in sizes(dense({"length": (0, 64)}))) == 1


def test_too_much_work_reduces_the_leading_dimensions_first(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(size_points, "MOST_OPERATIONS", 16 * 16 * 256 * 16)
    assert sizes(dense())[-1] == {"batch": 16, "length": 256}
    monkeypatch.setattr(size_points, "MOST_OPERATIONS", 16 * 16 * 64)
    assert sizes(dense({"batch": (2, 8)}))[-1] == {"batch": 2, "length": 32}


def test_given_values_replace_the_bounds_and_keep_their_weights():
    values = {"length": [(16, 3.0), (100, 1.0)], "batch": [(1, 1.0), (4, 1.0)]}
    assert [(point.sizes, point.weight) for point in network_points(dense(), values)] == [
        ({"batch": 1, "length": 16}, 0.75),
        ({"batch": 4, "length": 100}, 0.25),
    ]


def test_values_of_one_dimension_are_combined_with_the_spread_of_others():
    found = sizes(dense({"batch": (1, 8)}), values={"length": [(16, 1.0)]})
    assert {one["length"] for one in found} == {16}
    assert [one["batch"] for one in found] == [1, 3, 5, 8]


def test_dynamic_code_beside_several_shapes_is_measured_at_their_sizes():
    shapes = [{"batch": 1, "length": 16}, {"batch": 1, "length": 128}, {"batch": 8}]
    found = sizes(dense(), values=values_of_shapes(shapes))
    assert found == [{"batch": 1, "length": 16}, {"batch": 1, "length": 128}, {"batch": 8, "length": 128}]
    assert values_of_shapes(shapes[:1]) == {}


def test_a_network_with_fixed_shapes_has_no_points():
    module = fused(lambda x: op.nn.relu(x), ((4, 512), F32))
    assert network_points(module) == () and kernel_points(module, ()) == {}


def test_a_kernel_has_the_sizes_of_its_own_dimensions():
    """Half of a height is a dimension of its own in the kernel."""

    def pooled(x: Any) -> Any:
        return op.nn.softmax(op.nn.max_pool2d(x, (2, 2), (2, 2), layout="NHWC"), axis=3)

    module = fused(pooled, ((1, dim("height"), 8, 4), F32), bounds={"height": (8, 64)})
    found = kernel_points(module, network_points(module))
    heights = {name: [point.sizes for point in points] for name, points in found.items()}
    assert [list(one.values()) for one in heights["softmax"]] == [[4], [6], [11], [18], [32]]
    assert [max(one.values()) for one in heights["max_pool2d"]] == [8, 13, 23, 37, 64]


def test_a_kernel_that_is_called_with_several_shapes_is_measured_at_all():
    """The same kernel computes both results."""

    def both(x: Any, y: Any) -> Any:
        return tvm.relax.Tuple([op.nn.softmax(x), op.nn.softmax(y)])

    module = fused(both, ((dim("n"), 8), F32), ((dim("m"), 8), F32), bounds={"n": (2, 2), "m": (4, 4)})
    found = kernel_points(module, network_points(module))
    assert sorted(size for points in found.values() for point in points for size in point.sizes.values()) == [2, 4]


def test_a_kernel_whose_size_the_points_do_not_determine_has_none():
    assert kernel_points(dense(), points({"batch": 1})) == {}


def test_a_kernel_for_any_size_may_be_called_with_a_fixed_one():
    module = fused(op.exp, ((dim("batch"), dim("length")), F32))
    bound = tvm.relax.transform.BindSymbolicVars({"length": 64}, "main")(module)
    (listed,) = kernel_points(bound, network_points(bound)).values()
    assert [dict(point.sizes) for point in listed] == [{"batch": batch, "length": 64} for batch in (1, 3, 15, 63, 256)]
