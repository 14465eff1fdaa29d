"""PT2E's quantised networks compute in integers, equal PyTorch, and keep the size of their weights."""

import numpy as np
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers the operators of PT2E
import torch.nn.functional as F
from torch import Tensor, nn

from tests.transform.nets import Transformed, calls, input_dtypes, run, transformed
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.importer import read

ops = torch.ops.quantized_decomposed

X = torch.from_numpy(np.random.default_rng(0).uniform(-1, 2, (2, 3, 8, 8)).astype(np.float32))


class Net(nn.Module):
    """A padded convolution and a matmul, as PT2E writes them."""

    def __init__(self, rounds_weights: bool = False, is_dynamic: bool = False):
        super().__init__()
        draw = torch.Generator().manual_seed(0)
        self.rounds_weights, self.is_dynamic = rounds_weights, is_dynamic
        for name, shape in (("kernel", (6, 3, 3, 3)), ("matrix", (5, 6))):
            weight = torch.randn(shape, generator=draw)
            scale = weight.abs().flatten(1).amax(1) / 127
            zero = torch.zeros(len(scale), dtype=torch.int64)
            rounded = ops.quantize_per_channel(weight, scale, zero, 0, -127, 127, torch.int8)
            self.register_buffer(name, weight if rounds_weights else rounded)
            self.register_buffer(f"{name}_scale", scale)
            self.register_buffer(f"{name}_zero", zero)

    def weight(self, name: str) -> Tensor:
        value, scale, zero = getattr(self, name), getattr(self, f"{name}_scale"), getattr(self, f"{name}_zero")
        if self.rounds_weights:
            value = ops.quantize_per_channel(value, scale, zero, 0, -127, 127, torch.int8)
        return ops.dequantize_per_channel(value, scale, zero, 0, -127, 127, torch.int8)

    def quantise(self, x: Tensor, scale: float, zero: int) -> Tensor:
        if self.is_dynamic:
            bounds = (-128, 127, torch.int8)
            found = ops.choose_qparams(x, -128, 127, 2.0**-20, torch.int8)
            return ops.dequantize_per_tensor(ops.quantize_per_tensor(x, *found, *bounds), *found, *bounds)
        grid = (scale, zero, 0, 127, torch.uint8)  # half of a byte's values, as with `reduce_range`
        return ops.dequantize_per_tensor(ops.quantize_per_tensor(x, *grid), *grid)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(F.conv2d(self.quantise(x, 3 / 127, 42), self.weight("kernel"), padding=1))
        return F.linear(self.quantise(x.mean((2, 3)), 0.02, 0), self.weight("matrix"))


def transform_network(net: nn.Module) -> Transformed:
    program = torch.export.export(net.eval(), (X,))
    return transformed(read(program, ImportOptions(source="net.pt2")))


@pytest.mark.parametrize("rounds_weights", [False, True], ids=["weights of integers", "rounded weights"])
@pytest.mark.parametrize("is_dynamic", [False, True], ids=["fixed ranges", "ranges of each input"])
def test_integer_matmuls_equal_pytorch(rounds_weights, is_dynamic):
    net = Net(rounds_weights, is_dynamic)
    found = transform_network(net)
    products = [*calls(found[0], "nn.conv2d"), *calls(found[0], "matmul")]
    assert [set(input_dtypes(call)) <= {"int8", "uint8"} for call in products] == [True, True]
    expected = net(X).numpy()
    np.testing.assert_allclose(run(found, X.numpy()), expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_a_quantised_bias_in_32_bits_is_added():
    class Biased(Net):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("bias", torch.linspace(-1, 1, 5))

        def forward(self, x: Tensor) -> Tensor:
            grid = (1e-4, 0, -(2**31), 2**31 - 1, torch.int32)
            bias = ops.dequantize_per_tensor(ops.quantize_per_tensor(self.bias, *grid), *grid)
            return super().forward(x) + bias

    net = Biased()
    expected = net(X).numpy()
    np.testing.assert_allclose(
        run(transform_network(net), X.numpy()), expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max()
    )


class Table(nn.Module):
    """Rows with a scale and a zero point each that is not an integer, as PT2E's quantiser writes embeddings."""

    def __init__(self):
        super().__init__()
        draw = torch.Generator().manual_seed(0)
        self.register_buffer("rows", torch.randint(0, 256, (5, 8), generator=draw, dtype=torch.uint8))
        self.register_buffer("scale", 0.01 + torch.rand(5, generator=draw) / 100)
        self.register_buffer("zero", 100 + 50 * torch.rand(5, generator=draw))

    def forward(self, x: Tensor) -> Tensor:
        table = ops.dequantize_per_channel(self.rows, self.scale, self.zero, 0, 0, 255, torch.uint8)
        return x[0, 0, :4, :5] @ table


def test_zero_points_that_are_not_integers_are_kept():
    net = Table()
    np.testing.assert_allclose(run(transform_network(net), X.numpy()), net(X).numpy(), rtol=1e-5, atol=1e-6)
