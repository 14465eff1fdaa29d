"""Transpositions read memory in square tiles, and completely."""

import itertools
from typing import Any

import pytest
import tvm
import tvm_ffi
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.targets.cpu.schedules.nets import error, lowered

op = tvm.relax.op
AVX512 = tvm.target.Target({"kind": "llvm", "mcpu": "skylake-avx512"})
F32 = "float32"


def innermost_loops(expression: Any, *inputs: Any) -> list[int]:
    """The extents of the two innermost loops of the only kernel that transposes."""
    made = lowered(expression, *inputs, target=AVX512)
    (function,) = (function for name, function in made.final.functions_items() if str(name.name_hint) in made.ruled)
    found: list[list[int]] = []

    def note(loop: Any) -> None:
        nest = []
        while isinstance(loop, tvm.tirx.For):
            nest.append(int(loop.extent))
            loop = loop.body
        found.append(nest)

    tvm_ffi.structural_walk(function.body, (tvm.tirx.For, note))
    return max(found, key=len)[-2:]


@pytest.mark.parametrize(
    ("expression", "shape", "loops"),
    [
        (lambda x: op.permute_dims(x, [1, 0]), (96, 64), [32, 16]),
        (lambda x: op.permute_dims(op.nn.silu(x), [0, 2, 3, 1]), (1, 64, 14, 14), [14, 16]),
        (lambda x: op.permute_dims(x, [0, 2, 3, 1]), (1, 40, 4, 24), [24, 8]),
        (lambda x: op.add(op.permute_dims(x, [1, 0]), x), (64, 64), [32, 16]),
        (lambda x: op.permute_dims(x, [1, 0, 2]), (8, 64, 64), [2048, 16]),
    ],
)
def test_cache_lines_are_used_while_they_are_cached(expression: Any, shape: tuple[int, ...], loops: list[int]):
    assert innermost_loops(expression, (shape, F32)) == loops


ORDERS = [list(order) for rank in (2, 3, 4) for order in itertools.permutations(range(rank))]


@settings(max_examples=25, deadline=None)
@given(order=st.sampled_from(ORDERS), extents=st.lists(st.integers(1, 67), min_size=4, max_size=4))
def test_any_order_of_any_extents(order: list[int], extents: list[int]):
    shape = tuple(extents[: len(order)])

    def net(x: Any) -> Any:
        return op.permute_dims(op.abs(x), order)

    assert error(net, (shape, F32)) == 0
