"""The predicted front against every assignment there is, on drawn networks."""

from itertools import product

import numpy as np
import pytest

from tvmake.benchmark.assignments import Edge, Option, Predicted, pareto_front, pareto_optimal, predict

PRECISIONS = ("float32", "float16", "int8")


def drawn(seed: int) -> tuple[list[dict[str, Option]], list[Edge], float]:
    """Up to six parts with branches between them; some parts lack a precision."""
    draw = np.random.default_rng(seed)
    count = int(draw.integers(1, 7))
    options = []
    for _ in range(count):
        able = [precision for precision in PRECISIONS[1:] if draw.integers(0, 5)]
        options.append(
            {"float32": Option(0.0, 0.0)}
            | {one: Option(float(draw.normal(-1, 1)), float(draw.uniform(0, 1))) for one in able}
        )
    edges = [
        Edge(first, second, {precision: float(draw.uniform(0, 1)) for precision in PRECISIONS[1:]})
        for second in range(count)
        for first in range(max(0, second - 3), second)
        if draw.integers(0, 3)
    ]
    return options, edges, 10.0


def figures(front: list[Predicted]) -> list[tuple[float, float]]:
    return [(pytest.approx(one.latency_ms), pytest.approx(one.noise)) for one in front]


@pytest.mark.parametrize("seed", range(40))
def test_the_front_is_that_of_all_assignments(seed: int):
    options, edges, base = drawn(seed)
    every = [predict(options, edges, base, precisions) for precisions in product(*options)]
    found = pareto_front(options, edges, base)
    assert [(one.latency_ms, one.noise) for one in found] == figures(pareto_optimal(every))
    for one in found:
        assert (one.latency_ms, one.noise) == figures([predict(options, edges, base, one.precisions)])[0]


def test_the_order_of_precisions_does_not_matter():
    options, edges, base = drawn(3)
    turned = [dict(reversed(option.items())) for option in options]
    assert pareto_front(turned, edges, base) == pareto_front(options, edges, base)


def test_where_casts_cost_more_than_a_part_gains_it_stays_as_its_neighbours():
    gain, cast = Option(-1.0, 0.1), {"int8": 0.8}
    options = [{"float32": Option(0.0, 0.0), "int8": gain} for _ in range(3)]
    edges = [Edge(0, 1, cast), Edge(1, 2, cast)]
    chosen = {one.precisions for one in pareto_front(options, edges, 10.0)}
    assert ("float32", "int8", "float32") not in chosen
    assert ("int8", "int8", "int8") in chosen


def test_of_many_partial_assignments_the_most_accurate_of_each_step_is_kept():
    every = [Predicted((), latency, 1000 - latency) for latency in np.linspace(0, 100, 1001).tolist()]
    kept = pareto_optimal(every, most=50)
    assert 40 <= len(kept) <= 52
    assert (kept[0].latency_ms, kept[-1].latency_ms) == (0.0, 100.0)
