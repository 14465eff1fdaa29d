"""Pareto-optimal assignments of precisions to layers: each is the fastest at its noise.

Gains and noise of layers are assumed to add up: latencies because kernels run in sequence, except for casts between neighbours of
different precisions; noise powers because independent rounding errors are uncorrelated, so to first order their powers at
the output add (Widrow and Kollar, "Quantization Noise", 2008; for networks: Zhou et al., "Adaptive Quantization for Deep
Neural Networks", AAAI 2018). Users of a prediction measure it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvmake.quantize.precision import LayerPrecision

MOST_LABELS = 200
"""Maximum number of partial assignments per state of the layers that are still read; beyond it, only the most accurate in each
interval of latency is kept."""

MOST_SPAN = 5
"""Casts of a tensor that is read by more than this number of later parts are not predicted."""


@dataclass(frozen=True)
class Option:
    """A part of the network in one precision."""

    latency_ms: float
    """Relative to the part in the base's precision: negative if it is faster."""
    noise: float
    """Power at the output, as a share of the output's."""


@dataclass(frozen=True)
class Edge:
    """A tensor from one part of the network to another one."""

    source: int
    target: int
    cost_ms: Mapping[LayerPrecision, float]
    """The cost of a cast from or to the base's precision, by the other precision."""

    def between(self, first: LayerPrecision, second: LayerPrecision) -> float:
        """The cost of a cast; 0 if both ends have the same precision."""
        return 0.0 if first == second else max(self.cost_ms.get(first, 0.0), self.cost_ms.get(second, 0.0))


@dataclass(frozen=True)
class Predicted:
    """An assignment with its predicted latency and noise."""

    precisions: tuple[LayerPrecision, ...]
    """Of each part."""
    latency_ms: float
    noise: float


def predict(
    options: Sequence[Mapping[LayerPrecision, Option]],
    edges: Sequence[Edge],
    base_ms: float,
    precisions: Sequence[LayerPrecision],
) -> Predicted:
    """The prediction for one assignment."""
    chosen = [of_part[option] for of_part, option in zip(options, precisions, strict=True)]
    casts = sum(edge.between(precisions[edge.source], precisions[edge.target]) for edge in _short_edges(edges))
    return Predicted(
        tuple(precisions),
        base_ms + sum(option.latency_ms for option in chosen) + casts,
        sum(option.noise for option in chosen),
    )


def pareto_front(
    options: Sequence[Mapping[LayerPrecision, Option]], edges: Sequence[Edge], base_ms: float
) -> list[Predicted]:
    """All Pareto-optimal assignments, the fastest first.

    Dynamic programming over the parts in order. A state is the precisions of the parts that later ones read; for each state, the
    partial assignments that are not dominated are kept. The result is exact unless there are more than MOST_LABELS of them.

    Args:
        options: the options of each part, by precision.
        edges: between parts, from an earlier one to a later one.
        base_ms: the latency of the network with all parts in the base's precision.
    """
    into: dict[int, list[Edge]] = {}
    last_read: dict[int, int] = {}
    for edge in _short_edges(edges):
        into.setdefault(edge.target, []).append(edge)
        last_read[edge.source] = max(edge.target, last_read.get(edge.source, 0))
    states: dict[tuple[tuple[int, LayerPrecision], ...], list[Predicted]] = {(): [Predicted((), base_ms, 0.0)]}
    for part, able in enumerate(options):
        extended: dict[tuple[tuple[int, LayerPrecision], ...], list[Predicted]] = {}
        for labels in states.values():
            for label in labels:
                for precision, option in able.items():
                    casts = sum(edge.between(label.precisions[edge.source], precision) for edge in into.get(part, ()))
                    grown = Predicted(
                        (*label.precisions, precision),
                        label.latency_ms + option.latency_ms + casts,
                        label.noise + option.noise,
                    )
                    read = tuple(
                        (number, grown.precisions[number])
                        for number in range(part + 1)
                        if last_read.get(number, -1) > part
                    )
                    extended.setdefault(read, []).append(grown)
        states = {state: pareto_optimal(labels, MOST_LABELS) for state, labels in extended.items()}
    return pareto_optimal([label for labels in states.values() for label in labels])


def pareto_optimal(labels: Sequence[Predicted], most: int | None = None) -> list[Predicted]:
    """The Pareto-optimal labels, the fastest first; about ``most`` of them."""
    kept: list[Predicted] = []
    for label in sorted(labels, key=lambda candidate: (candidate.latency_ms, candidate.noise, candidate.precisions)):
        if not kept or label.noise < kept[-1].noise:
            kept.append(label)
    if most is None or len(kept) <= most:
        return kept
    step = (kept[-1].latency_ms - kept[0].latency_ms) / most
    thinned: dict[int, Predicted] = {}
    for label in kept:  # the later, the more accurate
        thinned[int((label.latency_ms - kept[0].latency_ms) / step)] = label
    return list(dict.fromkeys([kept[0], *thinned.values()]))


def _short_edges(edges: Sequence[Edge]) -> list[Edge]:
    return [edge for edge in edges if edge.target - edge.source <= MOST_SPAN]
