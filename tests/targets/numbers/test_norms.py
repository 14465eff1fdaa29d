"""Norms are precise if the mean is large relative to the deviation, on every target."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import tvm
from torch import Tensor, nn

from tests.decibels import decibels
from tests.frontend.torch.running import as_built
from tests.requirements import need
from tests.targets.adreno_texture.nets import executable, lowered, tensor
from tests.tune.graphs import graph
from tests.unoptimised import unoptimised_machine
from tvmake.native.backend import opencl_library
from tvmake.targets.numbers.norms import NORMS

from tvm import relax  # isort: skip

op = relax.op


def far_from_zero(*shape: int) -> Tensor:
    """Values whose mean is a thousand times their deviation."""
    return 4 + 0.004 * torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("norm", "shape"),
    [
        (lambda x: nn.functional.group_norm(x, 1), (1, 2, 8)),
        (lambda x: nn.functional.group_norm(x, 4, torch.arange(8.0).to(x), torch.ones(8).to(x)), (2, 8, 6, 5)),
        (lambda x: nn.functional.group_norm(x, 8), (1, 8, 3, 4, 5)),
        (lambda x: nn.functional.group_norm(x, 2), (3, 8)),
        (nn.functional.instance_norm, (2, 8, 40)),
        (
            lambda x: nn.functional.instance_norm(x, weight=torch.arange(6.0).to(x), bias=torch.ones(6).to(x)),
            (1, 6, 7, 9),
        ),
    ],
)
def test_a_norm_has_the_digits_that_pytorch_s_has(norm: Callable[[Tensor], Tensor], shape: tuple[int, ...]):
    x = far_from_zero(*shape)
    expected = norm(x.double()).numpy()
    assert decibels(as_built(norm, x), expected) > decibels(norm(x).numpy(), expected) - 10


def test_channels_may_be_innermost():
    def net(x: Any, scale: Any, shift: Any) -> Any:
        return op.nn.group_norm(x, scale, shift, 2, 3, [1, 2])

    module = relax.transform.LegalizeOps(NORMS)(
        graph(net, ((2, 5, 6, 4), "float32"), ((4,), "float32"), ((4,), "float32"))
    )
    x = far_from_zero(2, 4, 5, 6)
    scale, shift = torch.arange(4.0), torch.ones(4)
    arguments = [x.permute(0, 2, 3, 1).contiguous(), scale, shift]
    machine = unoptimised_machine(module)
    found = machine["main"](*(tvm.runtime.tensor(one.numpy()) for one in arguments)).numpy()
    expected = nn.functional.group_norm(x.double(), 2, scale.double(), shift.double()).permute(0, 2, 3, 1).numpy()
    assert decibels(found, expected) > 70


def test_extents_may_be_dynamic():
    n, length = tvm.tirx.Var("n", "int64"), tvm.tirx.Var("length", "int64")

    def net(x: Any, scale: Any, shift: Any) -> Any:
        return op.nn.group_norm(x, scale, shift, 2, 1, [2])

    module = relax.transform.LegalizeOps(NORMS)(
        graph(net, ((n, 4, length), "float32"), ((4,), "float32"), ((4,), "float32"))
    )
    machine = unoptimised_machine(module)
    x = far_from_zero(3, 4, 11)
    arguments = [x.numpy(), np.ones(4, np.float32), np.zeros(4, np.float32)]
    found = machine["main"](*map(tvm.runtime.tensor, arguments)).numpy()
    assert decibels(found, nn.functional.group_norm(x.double(), 2).numpy()) > 70


@pytest.mark.parametrize("groups", [2, 8])
def test_norms_between_textures_are_exact(groups: int):
    need("PoCL")
    opencl_library()

    same = relax.const(np.eye(8, dtype=np.float32).reshape(8, 8, 1, 1))

    def net(x: Any, scale: Any, shift: Any) -> Any:
        return op.nn.conv2d(op.nn.group_norm(op.nn.conv2d(x, same), scale, shift, groups, 1, [2, 3]), same)

    made = executable(lowered(net, tensor(1, 8, 6, 6), tensor(8), tensor(8)))
    device = tvm.device("opencl", 0)
    x = far_from_zero(1, 8, 6, 6)
    arguments = [x.numpy(), np.ones(8, np.float32), np.zeros(8, np.float32)]
    found = relax.VirtualMachine(made, device)["main"](*(tvm.runtime.tensor(one, device) for one in arguments)).numpy()
    assert decibels(found, nn.functional.group_norm(x.double(), groups).numpy()) > 70
