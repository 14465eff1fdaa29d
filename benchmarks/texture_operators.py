"""Single operators between two convolutions on a target with textures: correct, refused or wrong.

    python benchmarks/texture_operators.py [--target adreno-730-texture] [--only gelu where …] [--jobs 2]

The convolutions' tensors are in textures, so that each operator meets one and has to give one. Networks are imported from torch
as tvmake imports them, lowered and built for the target, run on this machine's first OpenCL device (on the CPU for a
target of kind llvm), and compared with torch. Each group of operators runs in a process of its own: a driver's compiler that
crashes costs the rest of its group, which is tried again one by one.

Exits with 1 when an operator that torch runs is wrong, crashes or cannot be built.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
import torch.nn.functional as F  # as everybody calls it
from torch import nn

CHANNELS, EXTENT = 8, 12
TOLERANCE = 1e-4
"""Of the largest element."""

GROUP = 8
LIMIT_S = 1800


class Of(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[[Any], Any]):
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        """The function's value."""
        return self.function(x)


class Squeeze(nn.Module):
    """A squeeze-and-excite gate."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(CHANNELS, 4, 1), nn.Conv2d(4, CHANNELS, 1)

    def forward(self, x: Any) -> Any:
        """The gated input."""
        return x * torch.sigmoid(self.up(F.relu(self.down(x.mean((2, 3), keepdim=True)))))


class Attention(nn.Module):
    """Self-attention over the image's positions."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(CHANNELS, 2, batch_first=True)

    def forward(self, x: Any) -> Any:
        """What attends to what."""
        tokens = x.flatten(2).transpose(1, 2)
        return self.inner(tokens, tokens, tokens, need_weights=False)[0].transpose(1, 2).reshape(x.shape)


OPERATORS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "gelu tanh": lambda: nn.GELU("tanh"),
    "elu": nn.ELU,
    "silu": nn.SiLU,
    "mish": nn.Mish,
    "prelu": lambda: nn.PReLU(CHANNELS),
    "leaky relu": nn.LeakyReLU,
    "hardswish": nn.Hardswish,
    "softplus": nn.Softplus,
    "selu": nn.SELU,
    "running sum": lambda: Of(lambda x: x.cumsum(3)),
    "largest of channels": lambda: Of(lambda x: x + x.max(1, keepdim=True).values),
    "deviation": lambda: Of(lambda x: x / (x.std((2, 3), keepdim=True) + 0.1)),
    "where": lambda: Of(lambda x: torch.where(x > 0, x, x * 0.1)),
    "comparison": lambda: Of(lambda x: (x > 0).float() * x),
    "group norm": lambda: nn.GroupNorm(2, CHANNELS),
    "group norm, silu": lambda: nn.Sequential(nn.GroupNorm(4, CHANNELS), nn.SiLU()),
    "instance norm": lambda: nn.InstanceNorm2d(CHANNELS, affine=True),
    "layer norm": lambda: nn.LayerNorm([CHANNELS, EXTENT, EXTENT]),
    "layer norm of channels": lambda: Of(
        lambda x: F.layer_norm(x.permute(0, 2, 3, 1), (CHANNELS,)).permute(0, 3, 1, 2)
    ),
    "rms norm": lambda: Of(lambda x: x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-6)),
    "chunk": lambda: Of(lambda x: torch.cat([x.chunk(2, 1)[1], x.chunk(2, 1)[0]], 1)),
    "uneven split": lambda: Of(lambda x: torch.cat([x[:, 3:], x[:, :3]], 1)),
    "mean over channels": lambda: Of(lambda x: x - x.mean(1, keepdim=True)),
    "norm over channels": lambda: Of(lambda x: F.normalize(x, dim=1)),
    "roll": lambda: Of(lambda x: torch.roll(x, (2, 3), (2, 3))),
    "reflect padding": lambda: nn.ReflectionPad2d(1),
    "replicate padding": lambda: nn.ReplicationPad2d(1),
    "constant padding": lambda: nn.ConstantPad2d(1, 3.0),
    "broadcast over width": lambda: Of(lambda x: x + x.mean(3, keepdim=True)),
    "squeeze and excite": Squeeze,
    "attention": Attention,
    "max pool": lambda: nn.MaxPool2d(2),
    "average pool": lambda: nn.AvgPool2d(3, 1, 1),
    "adaptive pool": lambda: nn.AdaptiveAvgPool2d(4),
    "nearest resize": lambda: nn.Upsample(scale_factor=2),
    "bilinear resize": lambda: nn.Upsample(scale_factor=2, mode="bilinear"),
    "pixel shuffle": lambda: Of(lambda x: torch.cat([F.pixel_shuffle(x, 2)] * 4, 1)),
    "channel shuffle": lambda: nn.ChannelShuffle(2),
    "transposed convolution": lambda: nn.ConvTranspose2d(CHANNELS, CHANNELS, 3, 2, 1, 1),
    "depthwise convolution": lambda: nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, groups=CHANNELS),
    "grouped convolution": lambda: nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, groups=2),
    "five channels": lambda: nn.Sequential(nn.Conv2d(CHANNELS, 5, 1), nn.Conv2d(5, CHANNELS, 1)),
    "softmax of channels": lambda: nn.Softmax(1),
    "softmax of rows": lambda: nn.Softmax(3),
    "flip": lambda: Of(lambda x: x.flip(2)),
    "transpose": lambda: Of(lambda x: x.transpose(2, 3)),
    "concatenation": lambda: Of(lambda x: torch.cat([x, x * 2], 1)[:, 4:12]),
    "slice": lambda: Of(lambda x: x[:, :, 1:-1, 2:]),
    "division": lambda: Of(lambda x: x / (x.abs() + 1)),
    "windows": lambda: Of(lambda x: x.reshape(1, 8, 3, 4, 3, 4).permute(0, 2, 4, 3, 5, 1).reshape(1, 8, 12, 12)),
    "linear": lambda: nn.Linear(EXTENT, EXTENT),
    "residual": lambda: Of(lambda x: x + F.relu(x)),
    "own transpose": lambda: Of(lambda x: x + x.permute(0, 1, 3, 2)),
    "triangle": lambda: Of(lambda x: x.tril()),
    "lookup": lambda: Of(lambda x: x[:, [3, 1, 2, 0, 5, 4, 7, 6]]),
    "rounding": lambda: Of(lambda x: (x * 10).int().float()),
    "relu6": nn.ReLU6,
    "hard sigmoid": nn.Hardsigmoid,
    "hard tanh": nn.Hardtanh,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "celu": nn.CELU,
    "shrink": lambda: nn.Softshrink(0.1),
    "gated linear unit": lambda: Of(lambda x: torch.cat([F.glu(x, 1)] * 2, 1)),
    "power": lambda: Of(lambda x: x.abs().pow(1.5)),
    "square root": lambda: Of(lambda x: x.abs().sqrt()),
    "exponential": lambda: Of(lambda x: x.clamp(max=2).exp()),
    "sine": lambda: Of(torch.sin),
    "error function": lambda: Of(torch.erf),
    "remainder": lambda: Of(lambda x: torch.remainder(x, 0.7)),
    "largest of rows": lambda: Of(lambda x: x - x.amax((2, 3), keepdim=True)),
    "sum of exponentials": lambda: Of(lambda x: x - x.logsumexp(1, keepdim=True)),
    "logarithm of softmax": lambda: nn.LogSoftmax(1),
    "product of a row": lambda: Of(lambda x: x * x.prod(3, keepdim=True).tanh()),
    "index of the largest": lambda: Of(lambda x: x + x.argmax(1, keepdim=True).float()),
    "k largest": lambda: Of(lambda x: torch.cat([x.topk(4, 1).values] * 2, 1)),
    "sorting": lambda: Of(lambda x: x.sort(1).values),
    "batch norm": lambda: nn.BatchNorm2d(CHANNELS),
    "local response norm": lambda: nn.LocalResponseNorm(3),
    "adaptive max pool": lambda: nn.AdaptiveMaxPool2d(5),
    "norm pool": lambda: nn.LPPool2d(2, 2),
    "pool that rounds up": lambda: nn.MaxPool2d(3, 2, ceil_mode=True),
    "average pool without padding": lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False),
    "circular padding": lambda: nn.CircularPad2d(1),
    "grid sample": lambda: Of(lambda x: F.grid_sample(x, x[:, :2].permute(0, 2, 3, 1).tanh(), align_corners=False)),
    "unfold": lambda: Of(lambda x: F.unfold(x, 3, padding=1).reshape(1, 9 * CHANNELS, EXTENT, EXTENT)),
    "fold": lambda: Of(lambda x: F.fold(F.unfold(x, 2, stride=2), (EXTENT, EXTENT), 2, stride=2)),
    "bicubic resize": lambda: nn.Upsample(scale_factor=2, mode="bicubic"),
    "resize with aligned corners": lambda: nn.Upsample((17, 19), mode="bilinear", align_corners=True),
    "pixel unshuffle": lambda: nn.PixelUnshuffle(2),
    "dilated convolution": lambda: nn.Conv2d(CHANNELS, CHANNELS, 3, padding=2, dilation=2),
    "convolution of rows": lambda: nn.Conv2d(CHANNELS, CHANNELS, (1, 5), padding=(0, 2)),
    "depthwise transposed convolution": lambda: nn.ConvTranspose2d(CHANNELS, CHANNELS, 4, 2, 1, groups=CHANNELS),
    "one channel": lambda: nn.Sequential(nn.Conv2d(CHANNELS, 1, 1), nn.Conv2d(1, CHANNELS, 1)),
    "product of matrices": lambda: Of(lambda x: x @ x.transpose(2, 3)),
    "sum of products": lambda: Of(lambda x: torch.einsum("bchw,bdhw->bcdh", x, x).flatten(1, 2)[:, :, None]),
    "stack": lambda: Of(lambda x: torch.stack([x, -x], 2).flatten(1, 2)),
    "repetition": lambda: Of(lambda x: x.repeat_interleave(2, 3)),
    "writing at a slice": lambda: Of(lambda x: x.slice_scatter(x[:, :, 1:3] * 2, 2, 4, 6)),
    "a dot by channels": lambda: Of(lambda x: x * F.cosine_similarity(x, x.roll(1, 2), 1).unsqueeze(1)),
}


class Between(nn.Module):
    """An operator between two convolutions."""

    def __init__(self, operator: nn.Module):
        super().__init__()
        self.first = nn.Conv2d(4, CHANNELS, 3, padding=1)
        self.operator = operator
        self.last = nn.LazyConv2d(CHANNELS, 3, padding=1)

    def forward(self, x: Any) -> Any:
        """The network's value."""
        return self.last(self.operator(self.first(x)))


def outcome(name: str, tag: str) -> str:
    """``right``, or what is wrong with an operator on a target."""
    import numpy as np
    import tvm

    from tvmake.codegen.link import generate
    from tvmake.codegen.lowering import lower
    from tvmake.codegen.options import BuildOptions, PassOptions
    from tvmake.codegen.weights import packed_weights
    from tvmake.config.target import TargetConfig
    from tvmake.errors import TvmakeError
    from tvmake.frontend.options import ImportOptions
    from tvmake.frontend.torch.importer import read
    from tvmake.native.backend import opencl_library
    from tvmake.targets.resolve import tvm_target

    torch.manual_seed(0)
    network, x = Between(OPERATORS[name]()).eval(), torch.randn(1, 4, EXTENT, EXTENT)
    with torch.no_grad():
        expected = network(x).numpy()
    try:
        imported = read(torch.export.export(network, (x,)), ImportOptions(source=name))
        target = tvm_target(TargetConfig(tag=tag) if tag != "llvm" else TargetConfig(kind="llvm"), "targets.t")
        made = lower(imported.module, target, [], PassOptions(), 1)
        names = [str(parameter.name) for parameter in made.fused["main"].params[1:]]
        params = packed_weights(imported.params, made.packings, names) if made.packings else imported.params
        opencl_library()
        device = tvm.cpu() if tag == "llvm" else tvm.device("opencl", 0)
        machine = tvm.relax.VirtualMachine(generate(made.final, target, BuildOptions(), "targets.t"), device)
        arguments = [x.numpy(), *(params[name].numpy() for name in names)]
        result = machine["main"](
            *(tvm.runtime.tensor(np.ascontiguousarray(argument), device) for argument in arguments)
        )
        got = (result if hasattr(result, "numpy") else result[0]).numpy()
    except (TvmakeError, tvm.error.InternalError, RuntimeError, ValueError, TypeError, AttributeError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return f"{type(error).__name__}: {lines[0][:200] if lines else ''}"
    error = float(np.abs(got - expected).max() / np.abs(expected).max())
    return "right" if error <= TOLERANCE else f"wrong by {error:.2g} of the largest element"


def outcomes(names: Sequence[str], tag: str) -> dict[str, str]:
    """The outcomes of a group, from a process of its own."""
    command = [sys.executable, __file__, "--target", tag, "--worker", "--only", *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    found = dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith('["'))
    left = [name for name in names if name not in found]
    if left and len(names) == 1:
        return {
            names[0]: f"crash ({done.returncode}): {done.stderr.strip().splitlines()[-1][:200] if done.stderr else ''}"
        }
    for name in left:
        found |= outcomes([name], tag)
    return found


def main() -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="adreno-730-texture", help="a tag of the catalogue, or llvm")
    parser.add_argument("--only", nargs="+", choices=OPERATORS, default=list(OPERATORS), metavar="OPERATOR")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        for name in arguments.only:
            print(json.dumps([name, outcome(name, arguments.target)]), flush=True)
        return 0
    groups = [arguments.only[index : index + GROUP] for index in range(0, len(arguments.only), GROUP)]
    found: dict[str, str] = {}
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for group in pool.map(lambda names: outcomes(names, arguments.target), groups):
            found |= group
    for name, said in found.items():
        if said != "right":
            print(f"{name}: {said}")
    right = sum(said == "right" for said in found.values())
    print(f"{right} of {len(found)} operators are right on {arguments.target}")
    return 0 if right == len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
