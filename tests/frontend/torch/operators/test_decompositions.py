"""Operators that neither PyTorch nor TVM decomposes, against PyTorch."""

import numpy as np
import pytest
import torch
from torch import nn

from tests.frontend.torch.running import Cases, Of, outputs
from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.importer import read

F = nn.functional
X = torch.arange(3 * 4 * 6).reshape(3, 4, 6).sin() * 2
EDGES = torch.tensor([-1.5, -0.25, 0.0, 0.9, 1.7])

TABLE = torch.arange(40).reshape(10, 4).cos()
BAGS = torch.tensor([[1, 0, 3], [9, 9, 2], [0, 0, 5]])


class Bilinear(nn.Module):
    """A layer with two inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Bilinear(6, 6, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x, x * 2)


NETS = {
    "cdist": lambda x: torch.cdist(x, x * 2),
    "cdist, p=1": lambda x: torch.cdist(x, x * 2, p=1.0),
    "cdist, p=3": lambda x: torch.cdist(x, x * 2, p=3.0),
    "cdist, p=inf": lambda x: torch.cdist(x, x * 2, p=float("inf")),
    "pdist": lambda x: F.pdist(x[0]),
    "kthvalue": lambda x: x.kthvalue(3, dim=1)[0],
    "kthvalue, the index": lambda x: x.kthvalue(2, dim=2, keepdim=True)[1].float(),
    "median": lambda x: x.median(dim=1)[0] + x.median(),
    "median, the index": lambda x: x.median(dim=2, keepdim=True)[1].float(),
    "searchsorted": lambda x: torch.searchsorted(EDGES, x).float(),
    "searchsorted, rows": lambda x: torch.searchsorted(x.sort(-1)[0], x, right=True).float(),
    "bucketize": lambda x: torch.bucketize(x, EDGES, right=True).float(),
    "a batch norm without statistics": nn.BatchNorm1d(4, affine=False, track_running_stats=False),
    "a batch norm in training mode": lambda x: F.batch_norm(
        x, None, None, x[0, :, 0], x[0, :, 1].abs(), training=True, eps=0.1
    ),
    "rrelu": nn.RReLU().eval(),
    "erfinv": lambda x: torch.erfinv(x / 2.01),
    "index_reduce": lambda x: x.index_reduce(1, torch.tensor([2, 0, 2]), x[:, 1:] * 2, "amax"),
    "indices of maxima": lambda x: F.max_pool2d(x, 2, return_indices=True)[1].float(),
    "indices of maxima, padded": lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True)[1].float(),
    "indices of maxima, dilated": lambda x: F.max_pool2d(x, 2, 1, 0, 2, return_indices=True)[1].float(),
    "indices of maxima, ceil mode": lambda x: F.max_pool2d(x, (3, 2), (2, 3), ceil_mode=True, return_indices=True)[
        1
    ].float(),
    "maxima and their indices": lambda x: torch.add(*F.max_pool2d(x, 2, return_indices=True)),
    "indices of maxima of volumes": lambda x: F.max_pool3d(x[None], 2, (1, 2, 3), 1, return_indices=True)[1].float(),
    "indices of adaptive maxima": lambda x: F.adaptive_max_pool2d(x, (3, 4), return_indices=True)[1].float(),
    "adaptive maxima of volumes": lambda x: F.adaptive_max_pool3d(x[None], (2, 3, 4)),
    "adaptive maxima of volumes and their indices": lambda x: torch.add(
        *F.adaptive_max_pool3d(x[None], (2, 3, 4), return_indices=True)
    ),
    "unpooled volumes": lambda x: F.max_unpool3d(*F.max_pool3d(x[None], (1, 2, 2), return_indices=True), (1, 2, 2)),
    "logcumsumexp": lambda x: x.logcumsumexp(1),
    "cummax": lambda x: x.round().cummax(1)[0] + x.round().cummax(2)[1],
    "cummin": lambda x: x.cummin(2)[0] + x.round().cummin(1)[1],
    "attention": lambda x: F.scaled_dot_product_attention(x, x * 2, x * 3),
    "attention with masked rows": lambda x: F.scaled_dot_product_attention(
        x, x * 2, x * 3, attn_mask=torch.tensor([[False] * 4, [True] * 4, [True, False, True, False], [False] * 4])
    ),
    "signbit": lambda x: torch.signbit(torch.relu(x) * -1).float() + torch.signbit((x * 3).int()).float(),
    "exp2": lambda x: torch.exp2(x),
    "erfc": lambda x: torch.special.erfc(x),
    "embedding bags": lambda x: F.embedding_bag(BAGS, TABLE, padding_idx=0, mode="sum") * x[0, 0, 0],
    "embedding bags, maxima": lambda x: F.embedding_bag(BAGS, TABLE, padding_idx=0, mode="max") * x[0, 0, 0],
    "embedding bags, means": lambda x: F.embedding_bag(BAGS.flatten(), TABLE, torch.tensor([0, 2, 7])) * x[0, 0, 0],
    "pooling without strides": lambda x: (
        F.max_pool2d(x, 2, ceil_mode=True)
        + F.avg_pool2d(x, 2, ceil_mode=True)
        + F.max_pool1d(x.flatten(1), 2)[:, :1, None]
    ),
    "bilinear": Bilinear(),
    "fake quantisation": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.05, 3, -20, 30),
    "fake quantisation of channels": lambda x: torch.fake_quantize_per_channel_affine(
        x, torch.tensor([0.1, 0.2, 0.3, 0.05]), torch.tensor([0, 1, -2, 3], dtype=torch.int32), 1, -9, 9
    ),
    "rounded quotients by a number": lambda x: torch.div(x, 0.3, rounding_mode="floor"),
    "any of all": lambda x: (x > 1.99).any().float() + (x > -3).all().float(),
    "products": lambda x: x.prod(1) + x.prod(),
    "variances": lambda x: x.var(1) + x.var(dim=(1, 2), unbiased=False)[:, None],
    "padded by reflection": lambda x: F.pad(F.pad(x, (2, 1), mode="reflect"), (1, 2), mode="replicate"),
}


CASES = Cases(NETS, X)


@pytest.mark.parametrize("name", NETS)
def test_a_network_equals_pytorch(name: str):
    np.testing.assert_allclose(CASES.outputs(name), CASES.expected(name), rtol=1e-4, atol=2e-5)


VOLUME = torch.arange(2 * 3 * 4 * 5 * 2).reshape(1, 2, 3, 4, 10).sin()
SAMPLED = Cases(
    {
        f"{mode}, {padding}{', aligned' * aligns}": lambda x, options=(mode, padding, aligns): F.grid_sample(
            VOLUME, x, *options
        )
        for mode in ("bilinear", "nearest")
        for padding in ("zeros", "border", "reflection")
        for aligns in (False, True)
    },
    torch.arange(4 * 5 * 2 * 3).reshape(1, 4, 5, 2, 3).cos() * 1.7,
)


@pytest.mark.parametrize("name", SAMPLED.networks)
def test_volumes_are_sampled_as_by_pytorch(name: str):
    np.testing.assert_allclose(SAMPLED.outputs(name), SAMPLED.expected(name), atol=2e-6)


def test_special_functions_of_float64_are_refused():
    """The approximations have single precision."""
    program = torch.export.export(Of(torch.erfinv).eval(), (X.double() / 3,))
    with pytest.raises(InputError, match="erfinv"):
        read(program, ImportOptions(source="net.pt2"))


DYNAMIC = {
    "cummax": lambda x: x.cummax(0)[0],
    "logcumsumexp": lambda x: x.logcumsumexp(0),
}


@pytest.mark.parametrize("net", DYNAMIC.values(), ids=DYNAMIC)
def test_cumulative_operators_along_a_dynamic_axis_are_refused(net):
    """The number of steps would be that of the example."""
    program = torch.export.export(Of(net).eval(), (X,), dynamic_shapes=({0: torch.export.Dim("n", min=2, max=64)},))
    with pytest.raises(InputError, match="has no importer"):
        read(program, ImportOptions(source="net.pt2"))


def test_a_scatter_with_a_dynamic_batch_is_imported():
    net = Of(lambda x: torch.zeros_like(x).scatter(1, (x.abs() * 97).long() % 4, x).masked_fill(x > 1, 7.0))
    program = torch.export.export(net.eval(), (X,), dynamic_shapes=({0: torch.export.Dim("n", min=2, max=64)},))
    more = torch.cat([X, X * 0.7])
    (found,) = outputs(read(program, ImportOptions(source="net.pt2")), more)
    assert np.allclose(found, net(more).numpy())
