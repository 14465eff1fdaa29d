"""Networks whose time says how fast a device reads memory and how fast it computes."""

from dataclasses import dataclass

import numpy as np

from tvmake.conformance.networks import Graph, Network, evaluate

MEGABYTE = 1 << 20

SIZES = (256, 1024)
"""Of matrices: the smaller one, and the one for devices that are done with it at once."""

LEAST_MS = 2.0
"""A product that takes less is too small to say anything."""


@dataclass(frozen=True)
class Rate:
    """A network, and the work that one run of it is.

    Attributes:
        work: bytes, or floating point operations.
        unit: of work a second, in the report; a billion of it.
    """

    name: str
    network: Network
    work: int
    unit: str


def bandwidth(megabytes: int) -> Rate:
    """Read a tensor of float32, and write one of the same size.

    Args:
        megabytes: of the tensor.
    """
    graph = Graph()
    data = np.random.default_rng(0).standard_normal((megabytes * MEGABYTE // 4 // 1024, 1024)).astype("float32")
    graph.add("Neg", ["data"], "copied")
    return Rate("memory bandwidth", evaluate(graph, {"data": data}, ["copied"]), 2 * data.nbytes, "GB/s")


def compute(size: int) -> Rate:
    """A matmul of square float32 matrices, compiled without tuning.

    Args:
        size: rows of each.
    """
    graph = Graph()
    data = np.random.default_rng(0).standard_normal((size, size)).astype("float32")
    graph.add("MatMul", ["data", graph.draw(size, size, scale=size**-0.5)], "result")
    return Rate(f"matmul {size}", evaluate(graph, {"data": data}, ["result"]), 2 * size**3, "GFLOP/s")
