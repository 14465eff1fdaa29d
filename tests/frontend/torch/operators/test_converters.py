"""Operators with converters of this package, against PyTorch."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.frontend.torch.running import Cases, Of, outputs
from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.importer import read

BOUNDS_OF_INTEGERS = [
    lambda numbers: numbers.clamp(-2, 3),
    lambda numbers: numbers.clamp(min=1),
    lambda numbers: numbers.clamp_max(2),
    lambda numbers: numbers.clamp(max=2**40),
]
NETS = {
    "elu": nn.ELU(0.7),
    "selu": nn.SELU(),
    "celu": nn.CELU(0.6),
    "amax": Of(lambda x: x.amax(1)),
    "amax of all": Of(lambda x: x.amax()),
    "amin, axes kept": Of(lambda x: x.amin((1, 2), keepdim=True)),
    "add, scaled": Of(lambda x: torch.add(x, x * x, alpha=2.5)),
    "sub, scaled": Of(lambda x: torch.sub(x, x * x, alpha=-3)),
    "rsub, scaled": Of(lambda x: torch.rsub(x, x * x, alpha=2)),
    "variance and mean": Of(lambda x: torch.cat(torch.var_mean(x, dim=1, keepdim=True), 1)),
    "minimum along an axis": Of(lambda x: x.min(1)[0] + x.min(1)[1]),
    "bounds that are tensors": Of(lambda x: torch.clamp(x, torch.full((4,), -1.0), x.abs().mean(2, keepdim=True))),
    "a bound that is a tensor": Of(lambda x: torch.clamp(x, max=torch.full((4,), 1.0))),
    "bounds that are numbers": Of(lambda x: x.clamp(-0.3, 0.4) + x.clamp(max=0.2) + torch.clamp_min(x, 0.1)),
    "bounds of integers": Of(lambda x: torch.stack([bound((x * 9).long()) for bound in BOUNDS_OF_INTEGERS]).float()),
    "floating-point bounds of integers": Of(lambda x: (x * 9).long().clamp(min=1.5) + (x * 9).int().clamp(-0.5, 2)),
    "a bound of bytes": Of(lambda x: (x.sigmoid() * 200).to(torch.uint8).clamp(min=3).float()),
    "matmuls of doubles": Of(
        lambda x: (
            torch.addmm(x[0, :, :3].double(), x[0].double(), x[1].double().mT, alpha=2, beta=0.5)
            + (x.double() @ x.double().mT).sum(0)
        ).float()
    ),
    "matmuls of integers": Of(lambda x: (((x * 9000).long() @ (x * 9000).long().mT) % 1001).float()),
    "group norm without weights": Of(lambda x: torch.nn.functional.group_norm(x, 3)),
    "logsumexp": Of(lambda x: x.logsumexp(1)),
    "maximum along an axis": Of(lambda x: x.max(1)[0] + x.max(1)[1]),
    "rounded quotients": Of(
        lambda x: torch.div(x, 0.7, rounding_mode="floor") + torch.div(x, x * x + 1, rounding_mode="trunc")
    ),
    "rounded quotients of integers": Of(
        lambda x: (
            (x * 10).to(torch.int64) // 3 + torch.div((x * 10).to(torch.int64), -4, rounding_mode="trunc")
        ).float()
    ),
    "product": Of(lambda x: (x + 1).prod()),
    "product along an axis": Of(lambda x: x.prod(-1, keepdim=True) + (x + 1).prod(1, keepdim=True)),
    "product of integers": Of(lambda x: (x * 3).to(torch.int32).prod(2) + (x > 0).prod(1, dtype=torch.int32).sum()),
    "hypotenuse": Of(lambda x: torch.hypot(x, x.abs() + 1)),
    "the largest in any order": Of(lambda x: torch.topk(x, 2, sorted=False)[0].sum(-1)),
    "arithmetic of booleans": Of(
        lambda x: torch.stack(
            [
                (x > 0) * (x < 1),
                (x > 1) + (x < -1),
                torch.maximum(x > 1, x < -1),
                torch.minimum(x > -1, x < 1),
                (x > 0) > (x > 1),
                (x > 0) <= (x > 1),
                (x > 0) == (x > 1),
                (x > 0).amax(1, keepdim=True).expand_as(x),
                (x > 0).min(1, keepdim=True)[0].expand_as(x),
            ]
        ).float()
    ),
    "indices of a stable sort": Of(
        lambda x: torch.stack(
            [(x * 2).round().argsort(stable=True, dim=1, descending=down) for down in (False, True)]
        ).float()
    ),
    "sorted booleans": Of(lambda x: torch.stack([(x > 0).sort(1)[0], (x > 0).sort(0, descending=True)[0]]).float()),
    "cumulative sums of booleans": Of(lambda x: ((x > 0).cumsum(1) + (x > 0).cumprod(1)).float()),
    "signs of others": Of(lambda x: torch.copysign(x, -x + 1)),
    "concatenation of two types": Of(lambda x: torch.cat([x, (x * 10).to(torch.int32)], 1)),
    "concatenation with an empty vector": Of(
        lambda x: torch.cat([torch.zeros(0), x], -1) + torch.cat([x, torch.zeros(0)])
    ),
    "shifted integers": Of(lambda x: (((x * 10).to(torch.int64) << 2) >> 1).float()),
    "integers shifted by others": Of(
        lambda x: (
            ((i := (x * 10).to(torch.int32)) << (i.abs() % 4))
            + torch.bitwise_right_shift(i, 1)
            + (1 << (i.abs() % 5))
            + torch.bitwise_left_shift(i, 2)
        ).float()
    ),
    "any and all of numbers": Of(
        lambda x: torch.stack(
            [
                x.relu().any(1, keepdim=True).expand_as(x),
                (x * 2).int().all(1, keepdim=True).expand_as(x),
                x.any().expand_as(x),
            ]
        ).float()
    ),
}
IMAGE = torch.arange(2 * 3 * 7 * 9).reshape(2, 3, 7, 9).sin()
ROWS, COLUMNS = torch.tensor([0, 1, 1, -1]), torch.tensor([2, -2, 0, 1])
INDEXED = {
    "pairs after an axis": Of(lambda x: x[:, ROWS, COLUMNS]),
    "pairs at the end": Of(lambda x: x[:, :, ROWS, COLUMNS]),
    "pairs first": Of(lambda x: x[ROWS % 2, COLUMNS]),
    "pairs with an axis between": Of(lambda x: x[ROWS % 2, :, COLUMNS]),
    "a column and a row": Of(lambda x: x[:, :, ROWS[:, None], COLUMNS]),
    "several axes": Of(lambda x: x[:, ROWS.reshape(2, 2, 1), COLUMNS.reshape(1, 2, 2)]),
    "all axes": Of(lambda x: x[ROWS % 2, ROWS % 3, COLUMNS, ROWS]),
    "sliding windows": Of(lambda x: x.unfold(2, 3, 2)),
    "sliding windows of a transposed tensor": Of(
        lambda x: x.permute(0, 3, 1, 2)[:, 1:].unfold(1, 4, 3).unfold(3, 2, 1)
    ),
    "trilinear": Of(lambda x: F.interpolate(x[None], size=(4, 5, 6), mode="trilinear")),
}


SAMPLING = [
    (mode, padding, align)
    for mode in ("bilinear", "nearest", "bicubic")
    for padding in ("zeros", "border", "reflection")
    for align in (False, True)
]


GRID = torch.rand(2, 2, 5, 2, generator=torch.Generator().manual_seed(1)) * 2.6 - 1.3
SAMPLED = Cases(
    {
        f"{mode}, {padding}{', aligned' * align}": lambda x, options=(mode, padding, align): F.grid_sample(
            x, GRID, *options
        )
        for mode, padding, align in SAMPLING
    },
    IMAGE,
)


@pytest.mark.parametrize("name", SAMPLED.networks)
def test_images_are_sampled_as_by_pytorch(name: str):
    np.testing.assert_allclose(SAMPLED.outputs(name), SAMPLED.expected(name), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stride": 2, "padding": 1, "output_padding": 1},
        {"groups": 3, "bias": False},
        {"stride": (1, 2, 3), "dilation": 2},
    ],
    ids=str,
)
def test_transposed_convolutions_of_volumes(options):
    torch.manual_seed(0)
    net, volume = nn.ConvTranspose3d(3, 6, 3, **options).eval(), torch.randn(2, 3, 3, 4, 2)
    imported = read(torch.export.export(net, (volume,)), ImportOptions(source="net"))
    np.testing.assert_allclose(outputs(imported, volume.numpy())[0], net(volume).detach().numpy(), rtol=1e-4, atol=1e-5)


OF_INDICES = Cases(INDEXED, IMAGE)


@pytest.mark.parametrize("name", INDEXED)
def test_indexing_equals_pytorch(name: str):
    np.testing.assert_allclose(OF_INDICES.outputs(name), OF_INDICES.expected(name), rtol=1e-5, atol=1e-6)


IMAGES = {
    "nearest, smaller": Of(lambda x: F.interpolate(x, size=(5, 4), mode="nearest")),
    "nearest, larger": Of(lambda x: F.interpolate(x, size=(11, 13), mode="nearest")),
    "nearest, twice as large": Of(lambda x: F.interpolate(x, scale_factor=2, mode="nearest")),
    "nearest, by a ratio": Of(lambda x: F.interpolate(x, scale_factor=1.7, mode="nearest")),
    "bilinear, antialiased": Of(lambda x: F.interpolate(x, size=(3, 4), mode="bilinear", antialias=True)),
    "bicubic, antialiased": Of(lambda x: F.interpolate(x, scale_factor=0.6, mode="bicubic", antialias=True)),
    "bilinear, by a ratio": Of(lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear")),
    "bilinear, smaller by a ratio": Of(lambda x: F.interpolate(x, scale_factor=(0.6, 0.4), mode="bilinear")),
    "bilinear, corners aligned, by a ratio": Of(
        lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear", align_corners=True)
    ),
    "bilinear, to one row": Of(lambda x: F.interpolate(x, size=(1, 13), mode="bilinear", align_corners=True)),
    "bicubic": Of(lambda x: F.interpolate(x, size=(5, 13), mode="bicubic")),
    "bicubic, by a ratio": Of(lambda x: F.interpolate(x, scale_factor=(1.7, 0.6), mode="bicubic")),
    "bicubic, corners aligned": Of(lambda x: F.interpolate(x, size=(11, 4), mode="bicubic", align_corners=True)),
    "average with another divisor": Of(lambda x: F.avg_pool2d(x, (3, 2), 2, (1, 0), True, True, 5)),
    "average with another divisor, without a stride": Of(lambda x: F.avg_pool2d(x, 3, divisor_override=2)),
    "average of volumes with another divisor": Of(lambda x: F.avg_pool3d(x, 2, 2, 1, False, False, 3)),
    "adaptive maxima": Of(lambda x: F.adaptive_max_pool2d(x, (3, 2))),
    "linear": Of(lambda x: F.interpolate(x[0], size=(5,), mode="linear")),
}


OF_IMAGES = Cases(IMAGES, IMAGE)


@pytest.mark.parametrize("name", IMAGES)
def test_resizes_and_pooling_equal_pytorch(name: str):
    np.testing.assert_allclose(OF_IMAGES.outputs(name), OF_IMAGES.expected(name), rtol=1e-5, atol=1e-5)


X = torch.linspace(-3, 3, 24).reshape(2, 3, 4)
CASES = Cases(NETS, X)


@pytest.mark.parametrize("name", NETS)
def test_a_network_equals_pytorch(name: str):
    np.testing.assert_allclose(CASES.outputs(name), CASES.expected(name), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("net", [nn.SELU(), NETS["amax of all"], NETS["product"]], ids=["selu", "amax", "product"])
def test_a_decomposed_program_equals_pytorch(net: nn.Module):
    imported = read(torch.export.export(net, (X,)).run_decompositions(), ImportOptions(source="net"))
    np.testing.assert_allclose(outputs(imported, X.numpy())[0], net(X).numpy(), rtol=1e-5, atol=1e-6)


def test_negative_indices_count_from_the_end_of_a_dynamic_dimension():
    net = Of(lambda x: x[:, ROWS, -1 - COLUMNS.abs()])
    program = torch.export.export(net, (IMAGE,), dynamic_shapes={"x": {3: torch.export.Dim("width", min=4)}})
    imported = read(program, ImportOptions(source="net"))
    wide = torch.cat([IMAGE, IMAGE], 3)
    np.testing.assert_allclose(outputs(imported, wide.numpy())[0], net(wide).numpy(), rtol=1e-5)


@pytest.mark.parametrize("draw", [torch.rand_like, torch.randn_like])
def test_random_numbers_are_refused(draw):
    """TVM's importer would make the second one a constant."""
    program = torch.export.export(Of(lambda x: x + draw(x)), (X,))
    with pytest.raises(InputError, match=rf"draws random numbers: aten\.{draw.__name__}\.default"):
        read(program, ImportOptions(source="net"))
