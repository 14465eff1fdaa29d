"""Tiles fit a kernel and a machine, and tiles with more reuse are preferred."""

from typing import Any

import pytest
import tvm
from hypothesis import given
from hypothesis import strategies as st

from tvmake.targets.cpu.schedules.machine import Machine, machine
from tvmake.targets.cpu.schedules.tiles import MOST_LACKING, Rows, Tile, divisors, good_tiles

AVX512, AVX, NEON = Machine(64, 32), Machine(32, 16), Machine(16, 32)


def best_tile(*given: Any, **options: bool) -> Tile:
    return good_tiles(*given, **options)[0]


@given(
    width=st.integers(1, 600), height=st.integers(1, 300), length=st.integers(1, 5000), bits=st.sampled_from([8, 16, 32, 64]),
    unit=st.sampled_from([AVX512, AVX, NEON, Machine()]),
)  # fmt: skip
def test_a_tile_fits_its_kernel_and_stays_in_registers(width: int, height: int, length: int, bits: int, unit: Machine):
    tile = best_tile(unit, bits, width, [Rows(0, height, shares=True)], length, 1)
    assert width % tile.width == 0
    assert -height % tile.height <= tile.height / MOST_LACKING
    assert tile.height * tile.vectors * -(-tile.lanes // unit.lanes(bits)) <= unit.accumulators


@given(
    width=st.integers(2, 600), height=st.integers(1, 300), length=st.integers(1, 5000), bits=st.sampled_from([8, 16, 32, 64]),
    unit=st.sampled_from([AVX512, AVX, NEON]),
)  # fmt: skip
def test_so_does_one_with_columns_of_zeros(width: int, height: int, length: int, bits: int, unit: Machine):
    tile = best_tile(unit, bits, width, [Rows(0, height, shares=True)], length, 1, pads=True)
    assert tile.lacking == -width % tile.width
    assert tile.lanes & (tile.lanes - 1) == 0 or tile.lacking == 0
    assert tile.height * tile.vectors * -(-tile.lanes // unit.lanes(bits)) <= unit.accumulators


@pytest.mark.parametrize("unit", [AVX512, AVX, NEON])
@pytest.mark.parametrize("width", [19, 21, 37, 85, 91, 255, 30522])
def test_columns_of_zeros_make_vectors_whole(width: int, unit: Machine):
    tile = best_tile(unit, 32, width, [Rows(0, 26, shares=True)], 512, 1, pads=True)
    assert tile.lanes == unit.lanes(32)
    assert tile.height > 1


def test_there_are_none_where_that_is_no_faster():
    assert best_tile(AVX512, 32, 192, [Rows(0, 26, shares=True)], 512, 1, pads=True).lacking == 0
    assert best_tile(AVX, 32, 1000, [Rows(0, 13, shares=True)], 512, 1, pads=True).lacking == 0


def test_vectors_in_halves_are_not_worth_as_many_zeros():
    halved = machine(tvm.target.Target({"kind": "llvm", "mcpu": "znver4"}))
    rows = [Rows(0, 56, shares=True)]
    assert best_tile(AVX512, 32, 24, rows, 144, 1, pads=True).lacking == 8
    assert best_tile(halved, 32, 24, rows, 144, 1, pads=True).lacking == 0
    assert best_tile(halved, 32, 1000, rows, 512, 1, pads=True).lacking <= 24


@pytest.mark.parametrize(("unit", "lanes"), [(AVX512, 16), (AVX, 8), (NEON, 4)])
def test_vectors_are_whole_where_the_kernel_allows_it(unit: Machine, lanes: int):
    tile = best_tile(unit, 32, 256, [Rows(0, 56, shares=True)], 576, 1)
    assert tile.lanes == lanes
    assert tile.height > 1


@pytest.mark.parametrize("unit", [AVX512, AVX, NEON])
@pytest.mark.parametrize("rows", [13, 17, 19, 29, 71])
def test_tiles_have_several_of_a_prime_of_rows(rows: int, unit: Machine):
    assert best_tile(unit, 32, 192, [Rows(0, rows, shares=True)], 768, 1).height > 1


@pytest.mark.parametrize(("unit", "rows"), [(AVX512, 14), (AVX, 12), (NEON, 12), (NEON, 14)])
def test_tiles_are_whole_where_that_is_as_good(unit: Machine, rows: int):
    assert rows % best_tile(unit, 32, 192, [Rows(0, rows, shares=True)], 768, 1).height == 0


@pytest.mark.parametrize("rows", [64, 128, 196, 1024])
def test_enough_sums_run_at_once(rows: int):
    tile = best_tile(AVX512, 32, 1024, [Rows(0, rows, shares=True)], 512, 1)
    assert tile.height * tile.vectors > 16


def test_matmuls_reuse_values_from_the_cache():
    tile = best_tile(AVX, 32, 192, [Rows(0, 60, shares=True)], 768, 1)
    assert tile.height > tile.vectors


def test_operands_larger_than_the_cache_are_read_once_for_few_rows():
    rows = [Rows(0, 16, shares=True)]
    assert best_tile(AVX512, 32, 32000, rows, 256, 1).height == 16
    assert best_tile(AVX512, 32, 320, rows, 256, 1).height < 16


@pytest.mark.parametrize("unit", [AVX512, AVX, NEON])
def test_there_are_as_many_tiles_as_requested(unit: Machine):
    assert best_tile(unit, 32, 64, [], 9216, 1).width > 16
    assert best_tile(unit, 32, 64, [], 9216, 1, fewest=4).width == 16


def test_tiles_of_instructions_are_whole():
    assert best_tile(AVX512, 32, 192, [Rows(0, 17, shares=True)], 768, 1, whole_only=True).height in (1, 17)


def test_rows_that_share_their_vectors_are_preferred():
    tile = best_tile(AVX, 32, 64, [Rows(0, 8, shares=False), Rows(1, 6, shares=True)], 64, 1)
    assert tile.rows is not None
    assert tile.rows.shares


@pytest.mark.parametrize(
    ("vectors_read", "shares", "index"),
    [(1, True, 1), (2, True, 2), (1, False, 2)],
    ids=["product", "depthwise", "pooling"],
)
def test_windows_take_their_rows_from_the_last_axis(vectors_read: int, shares: bool, index: int):
    tile = best_tile(AVX512, 32, 96, [Rows(1, 56, shares), Rows(2, 56, shares)], 9, vectors_read)
    assert tile.rows is not None
    assert tile.rows.index == index


def test_vectors_of_odd_lengths_are_the_last_resort():
    assert best_tile(AVX512, 32, 152, [Rows(0, 14, shares=True)], 152, 1).lanes == 8
    assert best_tile(AVX512, 32, 37, [Rows(0, 14, shares=True)], 152, 1).lanes == 37


@given(st.integers(1, 10_000))
def test_divisors_are_all_of_them(number: int):
    assert divisors(number) == [one for one in range(1, number + 1) if number % one == 0]


@pytest.mark.parametrize(
    ("options", "unit"),
    [
        ({"mcpu": "skylake-avx512"}, AVX512),
        ({"mcpu": "haswell"}, AVX),
        ({"mtriple": "aarch64-linux-gnu", "mattr": ["+neon"]}, NEON),
    ],
)
def test_a_machine_is_known_by_its_features(options: dict[str, object], unit: Machine):
    found = machine(tvm.target.Target({"kind": "llvm", **options}))
    assert (found.vector_bytes, found.registers) == (unit.vector_bytes, unit.registers)


def test_the_next_good_tiles_are_others():
    tiles = good_tiles(AVX512, 32, 256, [Rows(1, 14, shares=True)], 2304, 1)
    assert len(set(tiles)) == len(tiles) > 8


def test_the_number_of_rows_does_not_change_the_time_to_choose():
    many = Rows(0, 12_500_000_000_000, shares=True)
    assert best_tile(AVX512, 32, 512, [many], 400, 1).height > 1
    assert best_tile(AVX512, 32, 512, [many], 400, 1, whole_only=True).height > 1


def test_rows_that_evict_each_others_lines_are_avoided():
    """A convolution 1×1 of 32 × 32 pixels and 64 channels: its lines of pixels are 8 KiB apart, its pixels 256 bytes."""
    lines, pixels = (Rows(index, 32, shares=True, stride_bytes=[stride]) for index, stride in ((1, 8192), (2, 256)))
    assert best_tile(AVX512, 32, 32, [lines, pixels], 64, 1).rows == pixels
    assert best_tile(AVX512, 32, 32, [lines], 64, 1).height <= 8


def test_of_other_rows_the_first_are_taken():
    lines, pixels = (Rows(index, 28, shares=True, stride_bytes=[stride]) for index, stride in ((1, 7168), (2, 256)))
    assert best_tile(AVX512, 32, 32, [lines, pixels], 64, 1).rows == lines
