"""Operators that neither torch nor TVM takes apart compute what torch does."""

import numpy as np
import pytest
import torch
from torch import nn

from tests.frontend.torch.running import outputs
from tests.frontend.torch.test_scattering import Of
from tvmake.config.model import ImportOptions
from tvmake.frontend.torch.importer import read

F = nn.functional
X = torch.arange(3 * 4 * 6).reshape(3, 4, 6).sin() * 2
EDGES = torch.tensor([-1.5, -0.25, 0.0, 0.9, 1.7])

NETS = {
    "cdist": lambda x: torch.cdist(x, x * 2),
    "cdist, p=1": lambda x: torch.cdist(x, x * 2, p=1.0),
    "cdist, p=3": lambda x: torch.cdist(x, x * 2, p=3.0),
    "cdist, p=inf": lambda x: torch.cdist(x, x * 2, p=float("inf")),
    "pdist": lambda x: F.pdist(x[0]),
    "kthvalue": lambda x: x.kthvalue(3, dim=1)[0],
    "kthvalue, the place": lambda x: x.kthvalue(2, dim=2, keepdim=True)[1].float(),
    "median": lambda x: x.median(dim=1)[0] + x.median(),
    "median, the place": lambda x: x.median(dim=2, keepdim=True)[1].float(),
    "searchsorted": lambda x: torch.searchsorted(EDGES, x).float(),
    "searchsorted, rows": lambda x: torch.searchsorted(x.sort(-1)[0], x, right=True).float(),
    "bucketize": lambda x: torch.bucketize(x, EDGES, right=True).float(),
    "rrelu": nn.RReLU().eval(),
    "lgamma": lambda x: torch.lgamma(x * 3 + 0.013),
    "places of maxima": lambda x: F.max_pool2d(x, 2, return_indices=True)[1].float(),
    "places of maxima, padded": lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True)[1].float(),
    "places of maxima, with steps": lambda x: F.max_pool2d(x, 2, 1, 0, 2, return_indices=True)[1].float(),
    "places of maxima, the last window too": lambda x: F.max_pool2d(
        x, (3, 2), (2, 3), ceil_mode=True, return_indices=True
    )[1].float(),
    "maxima and their places": lambda x: torch.add(*F.max_pool2d(x, 2, return_indices=True)),
    "quotients by a number, rounded": lambda x: torch.div(x, 0.3, rounding_mode="floor"),
    "any of all": lambda x: (x > 1.99).any().float() + (x > -3).all().float(),
    "products": lambda x: x.prod(1) + x.prod(),
    "variances": lambda x: x.var(1) + x.var(dim=(1, 2), unbiased=False)[:, None],
    "padded by reflection": lambda x: F.pad(F.pad(x, (2, 1), mode="reflect"), (1, 2), mode="replicate"),
}


@pytest.mark.parametrize("net", NETS.values(), ids=NETS)
def test_a_network_computes_what_torch_does(net):
    program = torch.export.export(Of(net).eval(), (X,))
    (found,) = outputs(read(program, ImportOptions(source="net.pt2")), X)
    assert np.allclose(found, net(X).detach().numpy(), rtol=1e-4, atol=2e-5)
