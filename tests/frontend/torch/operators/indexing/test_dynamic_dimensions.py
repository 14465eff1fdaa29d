"""Dynamic dimensions as bounds of slices, as positions and as numbers, at several sizes and with an empty past."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import tvm
from torch import Tensor, nn

from tests.frontend.torch.running import compile_imported
from tests.unoptimised import unoptimised_machine
from tvmake.codegen.lowering import lower
from tvmake.codegen.options import PassOptions
from tvmake.config.target import TargetConfig
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.importer import read
from tvmake.ir.bounds import LOWER
from tvmake.ir.size_checks import size_reports
from tvmake.targets.resolve import tvm_target

TABLE = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
CAUSAL = torch.ones(64, 64, dtype=torch.bool).tril()


class Positions(nn.Module):
    """Operators of decoders on the lengths of ``x`` and of the past."""

    def forward(self, x: Tensor, past: Tensor) -> dict[str, Tensor]:
        n, p = x.shape[0], past.shape[0]
        both = torch.cat([past, x])
        return {
            "embedded": x + TABLE[torch.arange(p, p + n)],
            "rotated": x * torch.arange(p, p + n).float()[:, None].cos(),
            "shifted": x + TABLE[torch.arange(n) + p],
            "masked": (x @ both.T).masked_fill(torch.arange(p + n) > torch.arange(p, p + n)[:, None], -1.0),
            "cut from a table": x + TABLE[p : p + n],
            "causal": (x @ both.T).masked_fill(~CAUSAL[p : p + n, : p + n], -1.0),
            "last": both[p + n - 1 :] * 2,
            "last by its number": both[p + n - 1] * 2,
            "newest": both[-n:] - x,
            "differences": both.T.diff(dim=-2) + both.T[:-1, : p + n],
            "rolled": both.roll(1, 0),
            "written": torch.zeros(p + n, 4).slice_scatter(x, 0, p, p + n).slice_scatter(x[:1], 0, 0, 1),
            "filled": torch.full((n, 2), p) + torch.ones(n, p + n).tril(p).sum(-1, keepdim=True),
            "one_hot": nn.functional.one_hot(torch.arange(p, p + n), 64),
            "variance": both.var(0) + x.std(1, correction=2).mean() + torch.var_mean(both, 0)[0],
            "scaled": x / (p + n) ** 0.5 + n / (p + 1),
            "counted": x.clamp(max=n) + torch.scalar_tensor(p) + torch.linspace(0, n, 4),
        }


def as_function(network: nn.Module, inputs: tuple[Tensor, ...], dimensions: dict[str, Any]) -> Callable[..., list[Any]]:
    """Import and compile a network, with the fusion of packages."""
    program = torch.export.export(network, inputs, dynamic_shapes=dimensions)
    imported = read(program, ImportOptions(source="net", trusted=True))
    target = tvm_target(TargetConfig(kind="llvm"), "targets.t")
    lowered = lower(imported.module, target, [], PassOptions(), len(inputs), rules=False)
    machine = unoptimised_machine(lowered.fused)

    def run(*given: Tensor) -> list[Any]:
        results: Any = machine["main"](
            *(tvm.runtime.tensor(value.numpy()) for value in given), *imported.params.values()
        )
        return [result.numpy() for result in ([results] if hasattr(results, "numpy") else results)]

    return run


def test_arithmetic_of_decoders_on_dimensions_equals_pytorch():
    network = Positions()
    dims = {"x": {0: torch.export.Dim("n", min=1, max=32)}, "past": {0: torch.export.Dim("p", min=0, max=32)}}
    run = as_function(network, (torch.randn(3, 4), torch.randn(5, 4)), dims)
    for n, p in itertools.product((1, 3, 17), (0, 1, 32)):
        x, past = torch.randn(n, 4), torch.randn(p, 4)
        expected = network(x, past)
        for (name, wanted), found in zip(expected.items(), run(x, past), strict=True):
            assert (found.dtype, found.shape) == (wanted.numpy().dtype, tuple(wanted.shape)), name
            np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-4, atol=1e-5, err_msg=f"{name} at {n}, {p}")


class Squeezed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, None].squeeze() + x[None].squeeze((0, 1))


def test_squeezing_keeps_a_dynamic_axis():
    run = as_function(Squeezed(), (torch.randn(3, 4),), {"x": {0: torch.export.Dim("n", min=1, max=32)}})
    for n in (2, 5):
        x = torch.randn(n, 4)
        np.testing.assert_array_equal(run(x)[0], 2 * x.numpy())


class SlidingWindows(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return x.unfold(1, 3, 2) + 0, x.unfold(0, 2, 1) + 0, nn.functional.instance_norm(torch.stack([x, x * 2], 1))


def test_sliding_windows_and_instance_norms_of_dynamic_dimensions_equal_pytorch():
    network = SlidingWindows()
    dims = {"x": {0: torch.export.Dim("n", min=3, max=32), 1: torch.export.Dim("m", min=5, max=32)}}
    run = as_function(network, (torch.randn(4, 7),), dims)
    for n, m in ((3, 5), (5, 6), (7, 32)):
        x = torch.randn(n, m)
        for wanted, found in zip(network(x), run(x), strict=True):
            np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-4, atol=1e-5)


class Second(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[1:2] * 2


@pytest.mark.parametrize("least", [1, 2, 5])
def test_a_slice_up_to_a_number_needs_as_many_rows(least: int):
    """PyTorch exports the slice with one row for any lower bound of the dimension."""
    dims = {"x": {0: torch.export.Dim("n", min=least, max=32)}}
    program = torch.export.export(Second(), (torch.randn(6, 4),), dynamic_shapes=dims)
    main = read(program, ImportOptions(source="net.pt2")).module["main"]
    assert int(next(iter(main.attrs[LOWER].values()))) == max(2, least)
    assert not size_reports(main)


def test_the_global_pool_of_an_image_of_any_size_is_no_lookup():
    # PyTorch writes it as an average, and a strided view of it with other strides for the extents of 1.
    pool = nn.Sequential(nn.Conv2d(3, 8, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()
    free = torch.export.Dim.AUTO
    program = torch.export.export(pool, (torch.randn(2, 3, 6, 5),), dynamic_shapes=({0: free, 2: free, 3: free},))
    run = compile_imported(read(program, ImportOptions(source="m.pt2")))
    for size in ((1, 3, 4, 9), (3, 3, 7, 5)):
        x = torch.randn(size)
        np.testing.assert_allclose(run(x.numpy())[0], pool(x).detach(), rtol=1e-5, atol=1e-5)
