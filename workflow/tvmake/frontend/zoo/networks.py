"""Plain PyTorch definitions of well-known image networks, without weights.

The layer tables follow the papers: ResNet (He et al. 2015, with the stride on the 3×3 convolution as torchvision has
it), VGG-16 (Simonyan & Zisserman 2014), MobileNet (Howard et al. 2017), MobileNetV2 (Sandler et al. 2018),
SqueezeNet 1.1 (Iandola et al. 2016) and Inception v3 (Szegedy et al. 2015, without the auxiliary head, which is only for
training). Every network maps (N, 3, H, W) images to (N, num_classes) logits.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

Padding = int | tuple[int, int]


def conv_bn(
    inputs: int,
    outputs: int,
    kernel: Padding,
    stride: int = 1,
    padding: Padding = 0,
    groups: int = 1,
    activation: Callable[[], nn.Module] | None = nn.ReLU,
    eps: float = 1e-5,
) -> nn.Sequential:
    """Convolution without bias, batch norm, and the activation unless it is None."""
    layers: list[nn.Module] = [
        nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False),
        nn.BatchNorm2d(outputs, eps=eps),
    ]
    return nn.Sequential(*layers, *([activation()] if activation else []))


class Residual(nn.Module):
    """``relu(body(x) + shortcut(x))``."""

    def __init__(self, body: nn.Module, shortcut: nn.Module):
        super().__init__()
        self.body = body
        self.shortcut = shortcut

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet(blocks: tuple[int, int, int, int], bottleneck: bool, num_classes: int) -> nn.Module:
    """A ResNet with ``blocks`` residual blocks per stage, of two 3×3 or (``bottleneck``) 1×1-3×3-1×1 convolutions."""
    expansion = 4 if bottleneck else 1
    layers: list[nn.Module] = [conv_bn(3, 64, 7, 2, 3), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, count in enumerate(blocks):
        width = 64 << stage
        for index in range(count):
            stride = 2 if stage > 0 and index == 0 else 1
            outputs = width * expansion
            if bottleneck:
                body = nn.Sequential(
                    conv_bn(channels, width, 1),
                    conv_bn(width, width, 3, stride, 1),
                    conv_bn(width, outputs, 1, activation=None),
                )
            else:
                body = nn.Sequential(
                    conv_bn(channels, width, 3, stride, 1), conv_bn(width, outputs, 3, 1, 1, activation=None)
                )
            same = stride == 1 and channels == outputs
            shortcut = nn.Identity() if same else conv_bn(channels, outputs, 1, stride, activation=None)
            layers.append(Residual(body, shortcut))
            channels = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, num_classes))


def vgg16(num_classes: int) -> nn.Module:
    layers: list[nn.Module] = []
    channels = 3
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
            channels = width
        layers.append(nn.MaxPool2d(2, 2))
    return nn.Sequential(
        *layers,
        nn.AdaptiveAvgPool2d(7),
        nn.Flatten(),
        nn.Linear(512 * 7 * 7, 4096),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(4096, 4096),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(4096, num_classes),
    )


def mobilenet_v1(num_classes: int, width: float = 1.0) -> nn.Module:
    def scaled(channels: int) -> int:
        return max(8, int(channels * width))

    channels = scaled(32)
    layers: list[nn.Module] = [conv_bn(3, channels, 3, 2, 1, activation=nn.ReLU6)]
    table = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]
    for outputs, stride in table:
        layers += [
            conv_bn(channels, channels, 3, stride, 1, groups=channels, activation=nn.ReLU6),
            conv_bn(channels, scaled(outputs), 1, activation=nn.ReLU6),
        ]
        channels = scaled(outputs)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, num_classes))


class InvertedResidual(nn.Module):
    """Expand by 1×1, filter per channel, project by 1×1; add the input if shape and stride allow."""

    def __init__(self, inputs: int, outputs: int, stride: int, expand: int):
        super().__init__()
        hidden = inputs * expand
        expansion = [] if expand == 1 else [conv_bn(inputs, hidden, 1, activation=nn.ReLU6)]
        self.body = nn.Sequential(
            *expansion,
            conv_bn(hidden, hidden, 3, stride, 1, groups=hidden, activation=nn.ReLU6),
            conv_bn(hidden, outputs, 1, activation=None),
        )
        self.adds_input = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.adds_input else self.body(x)


def mobilenet_v2(num_classes: int, width: float = 1.0) -> nn.Module:
    def scaled(channels: float) -> int:
        """The nearest multiple of 8, at most 10 % below ``channels``."""
        rounded = max(8, int(channels + 4) // 8 * 8)
        return rounded + 8 if rounded < 0.9 * channels else rounded

    channels = scaled(32 * width)
    last = scaled(1280 * max(1.0, width))
    layers: list[nn.Module] = [conv_bn(3, channels, 3, 2, 1, activation=nn.ReLU6)]
    table = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for expand, outputs, count, first_stride in table:
        for index in range(count):
            stride = first_stride if index == 0 else 1
            layers.append(InvertedResidual(channels, scaled(outputs * width), stride, expand))
            channels = scaled(outputs * width)
    layers.append(conv_bn(channels, last, 1, activation=nn.ReLU6))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(last, num_classes))


class Concat(nn.Module):
    """Concatenates the branches' outputs along the channels."""

    def __init__(self, *branches: nn.Module):
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


def squeezenet1_1(num_classes: int) -> nn.Module:
    def fire(inputs: int, squeeze: int, expand: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(inputs, squeeze, 1),
            nn.ReLU(),
            Concat(
                nn.Sequential(nn.Conv2d(squeeze, expand, 1), nn.ReLU()),
                nn.Sequential(nn.Conv2d(squeeze, expand, 3, padding=1), nn.ReLU()),
            ),
        )

    def pool() -> nn.Module:
        return nn.MaxPool2d(3, 2, ceil_mode=True)

    return nn.Sequential(
        nn.Conv2d(3, 64, 3, 2),
        nn.ReLU(),
        pool(),
        fire(64, 16, 64),
        fire(128, 16, 64),
        pool(),
        fire(128, 32, 128),
        fire(256, 32, 128),
        pool(),
        fire(256, 48, 192),
        fire(384, 48, 192),
        fire(384, 64, 256),
        fire(512, 64, 256),
        nn.Dropout(0.5),
        nn.Conv2d(512, num_classes, 1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )


def inception_v3(num_classes: int) -> nn.Module:
    def conv(inputs: int, outputs: int, kernel: Padding, stride: int = 1, padding: Padding = 0) -> nn.Module:
        return conv_bn(inputs, outputs, kernel, stride, padding, eps=1e-3)

    def pooled(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(nn.AvgPool2d(3, 1, 1), conv(inputs, outputs, 1))

    def block_a(inputs: int, pool: int) -> nn.Module:
        return Concat(
            conv(inputs, 64, 1),
            nn.Sequential(conv(inputs, 48, 1), conv(48, 64, 5, padding=2)),
            nn.Sequential(conv(inputs, 64, 1), conv(64, 96, 3, padding=1), conv(96, 96, 3, padding=1)),
            pooled(inputs, pool),
        )

    def block_b(inputs: int) -> nn.Module:
        return Concat(
            conv(inputs, 384, 3, 2),
            nn.Sequential(conv(inputs, 64, 1), conv(64, 96, 3, padding=1), conv(96, 96, 3, 2)),
            nn.MaxPool2d(3, 2),
        )

    def wide(inputs: int, outputs: int) -> nn.Module:
        return conv(inputs, outputs, (1, 7), padding=(0, 3))

    def tall(inputs: int, outputs: int) -> nn.Module:
        return conv(inputs, outputs, (7, 1), padding=(3, 0))

    def block_c(width: int) -> nn.Module:
        return Concat(
            conv(768, 192, 1),
            nn.Sequential(conv(768, width, 1), wide(width, width), tall(width, 192)),
            nn.Sequential(
                conv(768, width, 1), tall(width, width), wide(width, width), tall(width, width), wide(width, 192)
            ),
            pooled(768, 192),
        )

    def block_d() -> nn.Module:
        return Concat(
            nn.Sequential(conv(768, 192, 1), conv(192, 320, 3, 2)),
            nn.Sequential(conv(768, 192, 1), wide(192, 192), tall(192, 192), conv(192, 192, 3, 2)),
            nn.MaxPool2d(3, 2),
        )

    def split() -> nn.Module:
        return Concat(conv(384, 384, (1, 3), padding=(0, 1)), conv(384, 384, (3, 1), padding=(1, 0)))

    def block_e(inputs: int) -> nn.Module:
        return Concat(
            conv(inputs, 320, 1),
            nn.Sequential(conv(inputs, 384, 1), split()),
            nn.Sequential(conv(inputs, 448, 1), conv(448, 384, 3, padding=1), split()),
            pooled(inputs, 192),
        )

    return nn.Sequential(
        conv(3, 32, 3, 2),
        conv(32, 32, 3),
        conv(32, 64, 3, padding=1),
        nn.MaxPool2d(3, 2),
        conv(64, 80, 1),
        conv(80, 192, 3),
        nn.MaxPool2d(3, 2),
        block_a(192, 32),
        block_a(256, 64),
        block_a(288, 64),
        block_b(288),
        block_c(128),
        block_c(160),
        block_c(160),
        block_c(192),
        block_d(),
        block_e(1280),
        block_e(2048),
        nn.AdaptiveAvgPool2d(1),
        nn.Dropout(0.5),
        nn.Flatten(),
        nn.Linear(2048, num_classes),
    )


NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "resnet18": lambda num_classes: resnet((2, 2, 2, 2), False, num_classes),
    "resnet34": lambda num_classes: resnet((3, 4, 6, 3), False, num_classes),
    "resnet50": lambda num_classes: resnet((3, 4, 6, 3), True, num_classes),
    "vgg16": vgg16,
    "mobilenet_v1": mobilenet_v1,
    "mobilenet_v2": mobilenet_v2,
    "squeezenet1_1": squeezenet1_1,
    "inception_v3": inception_v3,
}
"""Constructors by name; all take ``num_classes``, the mobilenets also ``width`` (the channel multiplier)."""

SMALLEST_SIZE: dict[str, int] = {"inception_v3": 75, "squeezenet1_1": 17, "vgg16": 32}
"""Smallest input height and width, if above 1."""


class Classifier(nn.Module):
    """Gives a network's input the name ``x``."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x)


def build(name: str, **arguments: Any) -> nn.Module:
    """The network ``name`` in eval mode with PyTorch's initial parameters (or on the meta device)."""
    return Classifier(NETWORKS[name](**arguments)).eval()
