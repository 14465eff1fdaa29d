"""Fourier transforms and complex numbers inside of networks, against PyTorch."""

import numpy as np
import pytest
import torch
from torch import nn

from tests.frontend.torch.running import Cases, Of, outputs
from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.importer import read

WINDOW = torch.hann_window(32)
SIGNAL = torch.arange(2 * 200).reshape(2, 200).mul(0.37).sin() + torch.arange(400).reshape(2, 200).mul(0.05).cos()
IMAGE = torch.arange(3 * 9 * 10).reshape(3, 9, 10).sin() * 2


def spectrum(x, **settings):
    return torch.stft(x, 32, 8, window=WINDOW, return_complex=True, **settings)


class Filters(nn.Module):
    """A filter for each frequency, as in global filter networks."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.arange(3 * 9 * 6 * 2).reshape(3, 9, 6, 2).cos())

    def forward(self, x):
        found = torch.fft.rfft2(x, norm="ortho") * torch.view_as_complex(self.weight)
        return torch.fft.irfft2(found, s=x.shape[-2:], norm="ortho")


def low_frequencies(x):
    """The lowest frequencies, written into an empty spectrum, as in Fourier neural operators."""
    found = torch.fft.rfft2(x)
    kept = torch.zeros_like(found)
    kept[:, :4, :3] = found[:, :4, :3] * (0.5 + 2j)
    kept[:, -2] = found[:, 2]
    return torch.fft.irfft2(kept + torch.full_like(found.real, 0.5, dtype=torch.complex64), s=x.shape[-2:])


class Rotations(nn.Module):
    """Rotary position embeddings in complex numbers, with a complex buffer."""

    def __init__(self):
        super().__init__()
        turns = torch.arange(9 * 5).reshape(9, 5).float()
        self.register_buffer("turns", torch.polar(torch.ones_like(turns), turns))

    def forward(self, x):
        turned = torch.view_as_complex(x.reshape(3, 9, 5, 2)) * self.turns
        return torch.view_as_real(turned).flatten(2)


NETS = {
    "rfft": (IMAGE, lambda x: torch.view_as_real(torch.fft.rfft(x, dim=1))),
    "rfft, padded": (IMAGE, lambda x: torch.fft.rfft(x, n=16).abs()),
    "fft of real numbers": (IMAGE, lambda x: torch.fft.fft(x).real + torch.fft.fft(x, norm="forward").imag),
    "fft2 and back": (IMAGE, lambda x: torch.fft.ifft2(torch.fft.fft2(x) * 2j).imag),
    "irfft of odd length": (IMAGE, lambda x: torch.fft.irfft(torch.fft.rfft(x, dim=1), n=9, dim=1)),
    "fftn, shifted": (IMAGE, lambda x: torch.fft.fftshift(torch.fft.fftn(x), dim=(1, 2)).abs()),
    "low frequencies": (IMAGE, low_frequencies),
    "hfft": (IMAGE, lambda x: torch.fft.hfft(torch.complex(x, x * 0.5), n=12)),
    "autocorrelation": (SIGNAL, lambda x: torch.fft.irfft(torch.fft.rfft(x).abs() ** 2)),
    "a spectrogram": (SIGNAL, lambda x: torch.log1p(spectrum(x).abs() ** 2)),
    "a spectrogram of both sides": (SIGNAL, lambda x: spectrum(x, onesided=False, center=False, normalized=True).real),
    "a mask on a spectrogram": (
        SIGNAL,
        lambda x: torch.istft(spectrum(x) * torch.sigmoid(spectrum(x).abs()), 32, 8, window=WINDOW, length=200),
    ),
    "filters": (IMAGE, Filters()),
    "rotations": (IMAGE, Rotations()),
    "quotients": (IMAGE, lambda x: torch.view_as_real(1.5 / torch.complex(x.abs() + 1, x) + torch.complex(x, x) / (x.abs() + 1))),
    "powers": (IMAGE, lambda x: torch.exp(torch.complex(x * 0.1, x)).abs() + (torch.complex(x, x * 2) ** 2).real + torch.complex(x + 3, x).angle()),
    "matmuls": (
        IMAGE,
        lambda x: torch.view_as_real(torch.fft.fft(x) @ torch.complex(x, x * 0.3).transpose(1, 2) - x[:, :, :9] * 1j),
    ),
    "logarithms and roots": (IMAGE, lambda x: torch.cat([torch.view_as_real(torch.complex(x, x.flip(2)).log()), torch.view_as_real(torch.complex(x, x.flip(1) - 0.5).sqrt())])),
    "angles": (IMAGE, lambda x: torch.view_as_real(torch.complex(x, x.flip(2)) * torch.complex(x, x).sgn())),
    "sums and products": (IMAGE, lambda x: torch.view_as_real(torch.addmm(torch.complex(x[0], x[1])[:, :6], torch.complex(x[0], x[2 % len(x)]), torch.complex(x[1], x[0]).T[:, :6]))),
    "parts side by side": (IMAGE, lambda x: torch.cat([torch.fft.fft(x), torch.complex(x, x)[:, :4]], 1).flip(1).imag),
}  # fmt: skip


CASES = {
    kind: Cases({name: network for name, (inputs, network) in NETS.items() if inputs is values}, values)
    for kind, values in (("image", IMAGE), ("signal", SIGNAL))
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, cases in CASES.items() for name in cases.networks])
def test_it_equals_pytorch(kind, name):
    (output,) = CASES[kind].outputs(name)
    (expected,) = CASES[kind].expected(name)
    assert (output.shape, output.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (lambda x: torch.fft.rfft(x.reshape(-1).repeat(20)).abs(), "5400 elements; up to 4096"),
        (lambda x: torch.fft.fft(x).cumprod(1).real, "complex numbers in aten.cumprod"),
        (lambda x: torch.fft.fft(x).sin().real, "complex numbers in aten.sin"),
    ],
)
def test_unsupported_operators_are_refused(function, problem):
    program = torch.export.export(Of(function).eval(), (IMAGE,))
    with pytest.raises(InputError, match=problem):
        read(program, ImportOptions(source="networks:one", trusted=True))


def test_an_output_may_be_a_real_part_of_complex_parameters():
    turns = torch.polar(torch.rand(4) + 0.5, torch.rand(4))
    program = torch.export.export(Of(lambda x: (x * 2, torch.cumprod(turns, 0).real)), (SIGNAL,))
    _, found = outputs(read(program, ImportOptions(source="net")), SIGNAL.numpy())
    np.testing.assert_allclose(found, torch.cumprod(turns, 0).real, rtol=1e-5)


def test_a_kernel_of_complex_parameters_may_have_a_spectrum():
    """As in state space models: constants become real, and then complex again."""
    turns = torch.polar(torch.rand(4) + 0.5, torch.rand(4))
    function = Of(lambda x: x[:, :1, :1] * torch.fft.rfft(torch.cumprod(turns, 0).real * 2).abs())
    x = torch.randn(2, 3, 4)
    (found,) = outputs(read(torch.export.export(function, (x,)), ImportOptions(source="net")), x.numpy())
    np.testing.assert_allclose(found, function(x), rtol=1e-4, atol=1e-5)


def test_imaginary_parts_of_the_first_and_last_frequency_are_zero():
    """Otherwise the angle of a negative number may differ by a full turn."""
    program = torch.export.export(Of(lambda x: torch.fft.rfft(x).angle()[:, [0, -1]]), (SIGNAL,))
    (found,) = outputs(read(program, ImportOptions(source="net")), SIGNAL.numpy())
    np.testing.assert_allclose(found, torch.fft.rfft(SIGNAL).angle()[:, [0, -1]], atol=1e-6)
