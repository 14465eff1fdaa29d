"""Transposed convolutions become convolutions with the same values for every stride, padding, group and axis."""

import numpy as np
import pytest
import torch
import tvm
from hypothesis import given
from hypothesis import strategies as st

from tests.transform.nets import operators, run, transformed
from tvmake.frontend.imported import ImportedModel
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.importer import read
from tvmake.quantize.precision import PrecisionConfig
from tvmake.transform.convolutions.transposed import as_convolutions, direction, spread_weights

from tvm import relax  # isort: skip


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


@given(
    extent=st.integers(1, 9),
    window=st.integers(1, 9),
    step=st.integers(1, 5),
    before=st.integers(0, 4),
    after=st.integers(0, 4),
    extra=st.integers(0, 4),
    groups=st.integers(1, 3),
)
def test_any_direction_is_a_convolution_with_neighbouring_results(extent, window, step, before, after, extra, groups):
    extra %= step
    found = direction(extent, window, step, (before, after), 1, extra)
    if found is None:
        return
    x, weights = drawn(1, 2 * groups, extent), drawn(2 * groups, 3, window)
    whole = torch.conv_transpose1d(torch.tensor(x), torch.tensor(weights), stride=step, groups=groups, output_padding=0)
    expected = torch.nn.functional.pad(whole, (0, extra))[..., before : whole.shape[-1] + extra - after]
    padded = torch.nn.functional.pad(torch.tensor(x), (found.before, found.after))
    made = torch.conv1d(padded, torch.tensor(spread_weights(weights, [found], groups)), groups=groups)
    side_by_side = made.reshape(1, 3 * groups, step, -1).swapaxes(2, 3).reshape(1, 3 * groups, -1)
    got = side_by_side[..., found.skipped : found.skipped + found.length]
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("window", "step", "padding", "extra", "places", "skipped"),
    [
        (2, 2, 0, 0, 1, 0),  # of a U-Net: no zeros, nothing cut off
        (4, 2, 1, 0, 2, 1),  # of a GAN
        (3, 2, 1, 1, 2, 0),
        (16, 8, 4, 0, 2, 4),  # of a vocoder
        (3, 1, 1, 0, 3, 0),
    ],
)
def test_the_kernel_window_is_as_small_as_possible(window, step, padding, extra, places, skipped):
    found = direction(10, window, step, (padding, padding), 1, extra)
    assert found is not None
    assert (len(found.taps[0]), found.skipped) == (places, skipped)
    assert sum(k is not None for taps in found.taps for k in taps) == window


NETS = {
    "doubling": (torch.nn.ConvTranspose2d(4, 6, 2, stride=2), (1, 4, 5, 6)),
    "of a GAN": (torch.nn.ConvTranspose2d(4, 6, 4, stride=2, padding=1, bias=False), (2, 4, 5, 6)),
    "of other steps each way": (torch.nn.ConvTranspose2d(4, 6, (3, 5), (2, 3), (1, 0), (1, 2)), (1, 4, 5, 6)),
    "grouped": (torch.nn.ConvTranspose2d(6, 4, 3, stride=2, padding=1, groups=2), (1, 6, 5, 6)),
    "depthwise": (torch.nn.ConvTranspose2d(6, 6, 4, stride=2, padding=1, groups=6), (1, 6, 5, 6)),
    "a step of one, dilated": (torch.nn.ConvTranspose2d(4, 6, 3, padding=1, dilation=2), (1, 4, 5, 6)),
    "of sequences": (torch.nn.ConvTranspose1d(4, 6, 16, stride=8, padding=4), (1, 4, 7)),
    "of volumes": (torch.nn.ConvTranspose3d(3, 4, 3, stride=2, padding=1, output_padding=1), (1, 3, 4, 3, 5)),
}


def imported(net: torch.nn.Module, example: torch.Tensor) -> ImportedModel:
    return read(torch.export.export(net.eval(), (example,)), ImportOptions(source="net.pt2"))


@pytest.mark.parametrize("name", NETS)
def test_networks_compute_what_torch_does(name: str):
    net, shape = NETS[name]
    example = torch.tensor(drawn(*shape))
    made = transformed(imported(net, example))
    assert not [operator for operator in operators(made[0]) if "transpose" in operator]
    got, expected = run(made, example.numpy()), net(example).detach().numpy()
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("net", "shape"),
    [
        (torch.nn.ConvTranspose2d(4, 6, 3, stride=2, dilation=2), (1, 4, 5, 6)),  # gaps between weights and steps
        (torch.nn.ConvTranspose2d(4, 6, 3, stride=1, padding=4), (1, 4, 9, 9)),  # only a part of the input counts
    ],
)
def test_other_transposed_convolutions_stay_and_are_correct(net: torch.nn.Module, shape: tuple[int, ...]):
    example = torch.tensor(drawn(*shape))
    made = transformed(imported(net, example))
    assert operators(made[0])["nn.conv2d_transpose"] == 1
    np.testing.assert_allclose(run(made, example.numpy()), net(example).detach().numpy(), rtol=0, atol=1e-4)


def test_a_precision_that_names_the_operator_keeps_it():
    net, shape = NETS["doubling"]
    model = imported(net, torch.tensor(drawn(*shape)))
    precision = PrecisionConfig(base="float16", never=["nn.conv2d_transpose"])
    assert operators(transformed(model, precision)[0])["nn.conv2d_transpose"] == 1
    assert operators(transformed(model, PrecisionConfig(base="float16"))[0])["nn.conv2d"] == 1


def network(weights: "relax.Expr | None", shape: list) -> "tvm.IRModule":
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    w = relax.Var("w", relax.TensorType([4, 6, 2, 2], "float32"))
    with builder.function("main", [x, w]):
        with builder.dataflow():
            made = builder.emit_output(
                relax.op.nn.conv2d_transpose(x, w if weights is None else weights, strides=[2, 2])
            )
        builder.emit_func_output(made)
    return builder.get()


def test_computed_weights_stay_and_dynamic_dimensions_do_not():
    constant = relax.const(drawn(4, 6, 2, 2))
    size = tvm.tirx.Var("n", "int64")
    assert operators(as_convolutions(network(None, [1, 4, 5, 6])))["nn.conv2d_transpose"] == 1
    assert operators(as_convolutions(network(constant, [1, 4, size, 6])))["nn.conv2d"] == 1
    assert operators(as_convolutions(network(constant, [size, 4, 5, 6])))["nn.conv2d"] == 1


@pytest.mark.parametrize("name", ["doubling", "of a GAN", "of other steps each way", "of sequences"])
def test_networks_of_dynamic_size_compute_what_torch_does(name: str):
    net, shape = NETS[name]
    axes = dict.fromkeys(range(2, len(shape)), torch.export.Dim.AUTO)
    example = torch.tensor(drawn(*shape))
    program = torch.export.export(net.eval(), (example,), dynamic_shapes=[axes])
    made = transformed(read(program, ImportOptions(source="net.pt2")))
    assert not [operator for operator in operators(made[0]) if "transpose" in operator]
    for more in (0, 3):
        x = drawn(*shape[:2], *(size + more for size in shape[2:]))
        expected = net(torch.tensor(x)).detach().numpy()
        np.testing.assert_allclose(run(made, x), expected, rtol=0, atol=1e-5 * np.abs(expected).max())
