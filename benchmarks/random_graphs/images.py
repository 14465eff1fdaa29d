"""Steps on images (batch, channels, height, width), and the same on signals and volumes."""

from random import Random
from typing import Any

import torch
import torch.nn.functional as F  # as everybody calls it
from torch import Tensor, nn

from .network import Kind, Options

CHANNELS = (1, 2, 3, 4, 4, 5, 6, 7, 8, 8, 8, 12, 16)


def is_float(x: Tensor, *ranks: int) -> bool:
    """Whether a value holds numbers, and has one of these ranks."""
    return x.dtype == torch.float32 and (not ranks or x.dim() in ranks)


def same_shape(x: Tensor, y: Tensor) -> bool:
    """Whether two values have one shape and type."""
    return x.shape == y.shape and x.dtype == y.dtype


def divisors(number: int) -> list[int]:
    """All of them, from 1."""
    return [candidate for candidate in range(1, number + 1) if number % candidate == 0]


def _per_axis(rng: Random, axes: int, choices: tuple[int, ...]) -> Any:
    """One number for all axes, or one for each."""
    if rng.random() < 0.6:
        return rng.choice(choices)
    return tuple(rng.choice(choices) for _ in range(axes))


def _convolution(axes: int) -> Any:
    def draw(rng: Random, x: Tensor) -> Options | None:
        if not is_float(x, axes + 2):
            return None
        channels = x.shape[1]
        out, groups = rng.choice(CHANNELS), 1
        if rng.random() < 0.3:
            groups = rng.choice(divisors(channels))
            out = groups * rng.choice((1, 2, 3))
        kernel = _per_axis(rng, axes, (1, 1, 2, 3, 3, 3, 4, 5))
        options: Options = {"out_channels": out, "kernel_size": kernel, "groups": groups, "bias": rng.random() < 0.7}
        if rng.random() < 0.15:
            return {**options, "padding": "same", "dilation": _per_axis(rng, axes, (1, 1, 2))}
        mode = rng.choice(("zeros",) * 8 + ("reflect", "replicate", "circular"))
        if axes > 2:
            mode = "zeros"
        return {
            **options,
            "stride": _per_axis(rng, axes, (1, 1, 1, 2, 3)),
            "padding": _per_axis(rng, axes, (0, 1, 1, 2)),
            "dilation": _per_axis(rng, axes, (1, 1, 1, 1, 2)),
            "padding_mode": mode,
        }

    return draw


def _depthwise(rng: Random, x: Tensor) -> Options | None:
    if not is_float(x, 4):
        return None
    return {"times": rng.choice((1, 1, 1, 2)), "kernel_size": rng.choice((3, 3, 5)), "stride": rng.choice((1, 1, 2))}


def _make_depthwise(x: Tensor, times: int, kernel_size: int, stride: int) -> nn.Module:
    channels = x.shape[1]
    return nn.Conv2d(channels, channels * times, kernel_size, stride, kernel_size // 2, groups=channels)


def _transposed(axes: int) -> Any:
    def draw(rng: Random, x: Tensor) -> Options | None:
        if not is_float(x, axes + 2):
            return None
        out, groups = rng.choice(CHANNELS), 1
        if rng.random() < 0.2:
            groups = rng.choice(divisors(x.shape[1]))
            out = groups * rng.choice((1, 2, 3))
        stride = _per_axis(rng, axes, (1, 2, 2, 3))
        wide = isinstance(stride, int) and stride > 1
        return {
            "out_channels": out,
            "kernel_size": _per_axis(rng, axes, (1, 2, 3, 3, 4)),
            "stride": stride,
            "padding": rng.choice((0, 0, 1)),
            "output_padding": rng.choice((0, 1)) if wide else 0,
            "dilation": rng.choice((1, 1, 1, 2)),
            "groups": groups,
            "bias": rng.random() < 0.7,
        }

    return draw


def _max_pool(axes: int) -> Any:
    def draw(rng: Random, x: Tensor) -> Options | None:
        if not is_float(x, axes + 2):
            return None
        kernel = rng.choice((2, 3, 3))
        return {
            "kernel_size": kernel,
            "stride": rng.choice((1, 2, 2, 3)),
            "padding": rng.choice((0, kernel // 2)),
            "dilation": rng.choice((1, 1, 1, 2)),
            "ceil_mode": rng.random() < 0.4,
        }

    return draw


def _average_pool(axes: int) -> Any:
    def draw(rng: Random, x: Tensor) -> Options | None:
        if not is_float(x, axes + 2):
            return None
        kernel = _per_axis(rng, axes, (2, 3, 3))
        least = kernel if isinstance(kernel, int) else min(kernel)
        options: Options = {
            "kernel_size": kernel,
            "stride": rng.choice((1, 2, 2, 3)),
            "padding": rng.choice((0, least // 2)),
            "ceil_mode": rng.random() < 0.4,
            "count_include_pad": rng.random() < 0.5,
        }
        if axes == 2 and rng.random() < 0.1:
            options["divisor_override"] = rng.choice((2, 5))
        return options

    return draw


def _adaptive(axes: int) -> Any:
    def draw(rng: Random, x: Tensor) -> Options | None:
        return {"output_size": _per_axis(rng, axes, (1, 1, 2, 3, 4, 5, 7))} if is_float(x, axes + 2) else None

    return draw


def _batch_norm(rng: Random, x: Tensor) -> Options | None:
    return {"affine": rng.random() < 0.8} if is_float(x, 2, 3, 4, 5) else None


def _make_batch_norm(x: Tensor, affine: bool) -> nn.Module:
    norms = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}
    return norms[x.dim()](x.shape[1], affine=affine)


def _group_norm(rng: Random, x: Tensor) -> Options | None:
    # A group of one element is standardised to nothing.
    if not is_float(x, 3, 4) or x[0, 0].numel() < 4:
        return None
    return {"num_groups": rng.choice(divisors(x.shape[1])), "affine": rng.random() < 0.8}


def _instance_norm(rng: Random, x: Tensor) -> Options | None:
    if not is_float(x, 3, 4) or x[0, 0].numel() < 4:
        return None
    return {"affine": rng.random() < 0.6}


def _resize(rng: Random, x: Tensor) -> Options | None:
    if not is_float(x, 3, 4, 5):
        return None
    modes = {
        3: ("nearest", "linear"),
        4: ("nearest", "nearest", "bilinear", "bilinear", "bicubic", "nearest-exact", "area"),
    }
    mode = rng.choice(modes.get(x.dim(), ("nearest", "trilinear")))
    options: Options = {"mode": mode}
    if rng.random() < 0.5:
        options["scale_factor"] = rng.choice((2, 2, 2.0, 3, 1.5, 0.5))
    else:
        options["size"] = tuple(rng.choice((1, 3, 4, 7, 8, 10, 12)) for _ in range(x.dim() - 2))
    if mode.endswith(("linear", "cubic")):
        options["align_corners"] = rng.random() < 0.4
        if mode in ("bilinear", "bicubic") and rng.random() < 0.1:
            options["antialias"] = True
    return options


def _pad(rng: Random, x: Tensor) -> Options | None:
    if not is_float(x, 3, 4):
        return None
    mode = rng.choice(("constant", "constant", "reflect", "replicate", "circular"))
    low = -1 if mode == "constant" and rng.random() < 0.2 else 0
    options: Options = {"pad": tuple(rng.randint(low, 2) for _ in range(2 * (x.dim() - 2))), "mode": mode}
    return {**options, "value": rng.choice((0.0, 0.5, -3.0))} if mode == "constant" else options


def _pixel_shuffle(rng: Random, x: Tensor) -> Options | None:
    factors = [factor for factor in (2, 3) if is_float(x, 4) and x.shape[1] % factor**2 == 0]
    return {"upscale_factor": rng.choice(factors)} if factors else None


def _pixel_unshuffle(rng: Random, x: Tensor) -> Options | None:
    if not is_float(x, 4):
        return None
    factors = [factor for factor in (2, 3) if all(extent % factor == 0 for extent in x.shape[2:])]
    return {"downscale_factor": rng.choice(factors)} if factors else None


def _channel_shuffle(rng: Random, x: Tensor) -> Options | None:
    groups = divisors(x.shape[1])[1:] if is_float(x, 4) else []
    return {"groups": rng.choice(groups)} if groups else None


def _grid_sample(rng: Random, x: Tensor) -> Options | None:
    if not is_float(x, 4) or x.shape[0] > 2:
        return None
    return {
        "mode": rng.choice(("bilinear", "bilinear", "nearest")),
        "padding_mode": rng.choice(("zeros", "border")),
        "align_corners": rng.random() < 0.5,
        "size": (rng.randint(2, 6), rng.randint(2, 6)),
    }


class _Sampled(nn.Module):
    """Samples at positions that are weights, as a warp with a fixed field."""

    def __init__(self, batch: int, size: tuple[int, int], **options: Any):
        super().__init__()
        self.grid = nn.Parameter(torch.rand(batch, *size, 2) * 2.2 - 1.1)
        self.options = options

    def forward(self, x: Tensor) -> Tensor:
        return F.grid_sample(x, self.grid, **self.options)


class _SqueezeAndExcite(nn.Module):
    def __init__(self, channels: int, inner: int):
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, inner, 1), nn.Conv2d(inner, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.up(F.relu(self.down(x.mean((2, 3), keepdim=True)))))


def _unfold(rng: Random, x: Tensor) -> Options | None:
    if not is_float(x, 4) or min(x.shape[2:]) < 3:
        return None
    return {"kernel_size": rng.choice((2, 3)), "stride": rng.choice((1, 2)), "padding": rng.choice((0, 1))}


def _layers(module: Any) -> Any:
    """A module that is given the number of channels first."""
    return lambda x, **options: module(x.shape[1], **options)


def _functional(function: Any) -> Any:
    return lambda x, **options: lambda value: function(value, **options)


KINDS: dict[str, Kind] = {
    "conv2d": Kind(_convolution(2), _layers(nn.Conv2d), weight=9),
    "conv1d": Kind(_convolution(1), _layers(nn.Conv1d), weight=4),
    "conv3d": Kind(_convolution(3), _layers(nn.Conv3d), weight=4),
    "depthwise": Kind(_depthwise, _make_depthwise, weight=2),
    "conv_transpose2d": Kind(_transposed(2), _layers(nn.ConvTranspose2d), weight=1.5),
    "conv_transpose1d": Kind(_transposed(1), _layers(nn.ConvTranspose1d), weight=0.6),
    "conv_transpose3d": Kind(_transposed(3), _layers(nn.ConvTranspose3d), weight=0.6),
    "max_pool2d": Kind(_max_pool(2), _functional(F.max_pool2d), weight=1.5),
    "max_pool1d": Kind(_max_pool(1), _functional(F.max_pool1d), weight=0.5),
    "max_pool3d": Kind(_max_pool(3), _functional(F.max_pool3d), weight=0.8),
    "avg_pool2d": Kind(_average_pool(2), _functional(F.avg_pool2d), weight=1.5),
    "avg_pool1d": Kind(_average_pool(1), _functional(F.avg_pool1d), weight=0.5),
    "avg_pool3d": Kind(_average_pool(3), _functional(F.avg_pool3d), weight=0.8),
    "adaptive_avg_pool2d": Kind(_adaptive(2), _functional(F.adaptive_avg_pool2d)),
    "adaptive_avg_pool1d": Kind(_adaptive(1), _functional(F.adaptive_avg_pool1d), weight=0.3),
    "adaptive_max_pool2d": Kind(_adaptive(2), _functional(F.adaptive_max_pool2d), weight=0.5),
    "batch_norm": Kind(_batch_norm, _make_batch_norm, weight=2),
    "group_norm": Kind(_group_norm, lambda x, **options: nn.GroupNorm(num_channels=x.shape[1], **options)),
    "instance_norm": Kind(
        _instance_norm,
        lambda x, **options: (nn.InstanceNorm2d if x.dim() == 4 else nn.InstanceNorm1d)(x.shape[1], **options),
        weight=0.7,
    ),
    "interpolate": Kind(_resize, _functional(F.interpolate), weight=2),
    "pad": Kind(_pad, _functional(F.pad), weight=1.5),
    "pixel_shuffle": Kind(_pixel_shuffle, _functional(F.pixel_shuffle)),
    "pixel_unshuffle": Kind(_pixel_unshuffle, _functional(F.pixel_unshuffle)),
    "channel_shuffle": Kind(_channel_shuffle, lambda x, groups: nn.ChannelShuffle(groups)),
    "local_response_norm": Kind(
        lambda rng, x: {"size": rng.choice((2, 3, 5))} if is_float(x, 4) else None,
        _functional(F.local_response_norm),
        weight=0.3,
    ),
    "prelu": Kind(
        lambda rng, x: {"shares": rng.random() < 0.3} if is_float(x, 3, 4) else None,
        lambda x, shares: nn.PReLU(1 if shares else x.shape[1]),
        weight=0.7,
    ),
    "squeeze_and_excite": Kind(
        lambda rng, x: {"inner": rng.choice((1, 2, 4, 5))} if is_float(x, 4) else None,
        lambda x, inner: _SqueezeAndExcite(x.shape[1], inner),
    ),
    "grid_sample": Kind(_grid_sample, lambda x, **options: _Sampled(x.shape[0], **options), weight=0.4),
    "unfold": Kind(_unfold, _functional(F.unfold), weight=0.3),
}
"""By name."""
