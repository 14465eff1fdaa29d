"""PyTorch modules of the networks in benchmarks/dynamic_networks.py that no library provides."""

import itertools

import torch
from dynamic_networks import VOCABULARY
from torch import Tensor, nn
from torch.nn import functional

Made = tuple[nn.Module, tuple[Tensor, ...]]


def heads(x: Tensor, count: int) -> Tensor:
    """[batch, length, count · width] as [batch, count, length, width]."""
    batch, length, _ = x.shape
    return x.reshape(batch, length, count, -1).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """The reverse of :func:`heads`."""
    batch, _, length, _ = x.shape
    return x.transpose(1, 2).reshape(batch, length, -1)


class EncoderLayer(nn.Module):
    """Attention and a feed-forward network, each after a layer norm."""

    def __init__(self, width: int, count: int):
        super().__init__()
        self.count = count
        self.before_attention, self.before_feed = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Of the same shape, [batch, length, width]."""
        y = self.before_attention(x)
        query, key, value = (heads(linear(y), self.count) for linear in (self.query, self.key, self.value))
        x = x + self.out(merge_heads(functional.scaled_dot_product_attention(query, key, value)))
        return x + self.narrow(functional.gelu(self.widen(self.before_feed(x))))


def encoder() -> Made:
    """Six layers of width 384, over token ids."""
    layers = [EncoderLayer(384, 6) for _ in range(6)]
    return nn.Sequential(nn.Embedding(VOCABULARY, 384), *layers), (torch.randint(0, VOCABULARY, (2, 17)),)


class RMSNorm(nn.Module):
    """x over the root of its mean square."""

    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Over the last axis."""
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class DecoderLayer(nn.Module):
    """Attention with fewer keys than queries, rotary positions and a gated feed-forward network."""

    def __init__(self, width: int, count: int, key_count: int, inner: int):
        super().__init__()
        self.count, self.key_count = count, key_count
        size = width // count
        self.before_attention, self.before_feed = RMSNorm(width), RMSNorm(width)
        self.query, self.out = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.key, self.value = (nn.Linear(width, key_count * size, bias=False) for _ in range(2))
        self.gate, self.widen = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.narrow = nn.Linear(inner, width, bias=False)

    def forward(
        self, x: Tensor, past_keys: Tensor, past_values: Tensor, positions: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The layer's output, and keys and values with those of the past."""
        y = self.before_attention(x)
        query = rotate(heads(self.query(y), self.count), positions)
        keys = torch.cat([past_keys, rotate(heads(self.key(y), self.key_count), positions)], 2)
        values = torch.cat([past_values, heads(self.value(y), self.key_count)], 2)
        shared = self.count // self.key_count
        scores = query @ keys.repeat_interleave(shared, 1).transpose(2, 3) / query.shape[-1] ** 0.5
        weights = scores.masked_fill(~mask, -1e9).softmax(-1)
        x = x + self.out(merge_heads(weights @ values.repeat_interleave(shared, 1)))
        y = self.before_feed(x)
        return x + self.narrow(functional.silu(self.gate(y)) * self.widen(y)), keys, values


def rotate(x: Tensor, positions: Tensor) -> Tensor:
    """Rotary position embedding of [batch, heads, length, width]."""
    width = x.shape[-1]
    angles = positions[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
    cosine, sine = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
    return x * cosine + torch.cat([-x[..., width // 2 :], x[..., : width // 2]], -1) * sine


class Decoder(nn.Module):
    """A language model like Llama: logits after the last token, and the keys and values for the next call."""

    def __init__(self, width: int = 576, count: int = 9, key_count: int = 3, depth: int = 6, inner: int = 1536):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.layers = nn.ModuleList(DecoderLayer(width, count, key_count, inner) for _ in range(depth))
        self.norm, self.head = RMSNorm(width), nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, ids: Tensor, past_keys: Tensor, past_values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Of ids [batch, length] and a past of [layers, batch, heads, past, width]."""
        length, past = ids.shape[1], past_keys.shape[3]
        positions = torch.arange(past, past + length).float()
        mask = torch.arange(past + length)[None, :] <= (torch.arange(length)[:, None] + past)
        x, keys, values = self.embedding(ids), [], []
        for number, layer in enumerate(self.layers):
            x, key, value = layer(x, past_keys[number], past_values[number], positions, mask)
            keys.append(key)
            values.append(value)
        return self.head(self.norm(x[:, -1])), torch.stack(keys), torch.stack(values)


def decoder() -> Made:
    """Six layers of width 576, with nine heads and three of keys."""
    past = torch.randn(6, 1, 3, 32, 64)
    return Decoder(), (torch.randint(0, VOCABULARY, (1, 2)), past, past.clone())


def convolution(channels: int, filters: int, kernel: int = 3, stride: int = 1) -> nn.Sequential:
    """A convolution with batch norm and SiLU."""
    return nn.Sequential(
        nn.Conv2d(channels, filters, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(filters), nn.SiLU()
    )


class UNet(nn.Module):
    """Two convolutions on each of four levels, down by max pooling and up by transposed convolutions."""

    def __init__(self, widths: tuple[int, ...] = (24, 48, 96, 192)):
        super().__init__()
        pairs = list(itertools.pairwise(widths))
        self.first = self.twice(3, widths[0])
        self.down = nn.ModuleList(self.twice(above, below) for above, below in pairs)
        self.up = nn.ModuleList(nn.ConvTranspose2d(below, above, 2, 2) for above, below in reversed(pairs))
        self.join = nn.ModuleList(self.twice(2 * above, above) for above, _ in reversed(pairs))
        self.last = nn.Conv2d(widths[0], 2, 1)

    @staticmethod
    def twice(channels: int, filters: int) -> nn.Sequential:
        """Two convolutions with ReLU."""
        parts = [nn.Conv2d(channels, filters, 3, padding=1), nn.ReLU(), nn.Conv2d(filters, filters, 3, padding=1)]
        return nn.Sequential(*parts, nn.ReLU())

    def forward(self, image: Tensor) -> Tensor:
        """Logits of two classes for each pixel; height and width are multiples of 8."""
        skipped = [self.first(image)]
        for down in self.down:
            skipped.append(down(functional.max_pool2d(skipped[-1], 2)))
        x = skipped.pop()
        for up, join in zip(self.up, self.join, strict=True):
            x = join(torch.cat([up(x), skipped.pop()], 1))
        return self.last(x)


def unet() -> Made:
    """A U-Net for images of any size."""
    return UNet(), (torch.randn(1, 3, 64, 96),)


class CrossStage(nn.Module):
    """Half of the channels go through bottlenecks, and all outputs are joined."""

    def __init__(self, channels: int, filters: int, depth: int):
        super().__init__()
        self.half = filters // 2
        self.enter = convolution(channels, filters, 1)
        self.bottlenecks = nn.ModuleList(
            nn.Sequential(convolution(self.half, self.half), convolution(self.half, self.half)) for _ in range(depth)
        )
        self.leave = convolution((2 + depth) * self.half, filters, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Of the same height and width."""
        parts = list(self.enter(x).split(self.half, 1))
        for bottleneck in self.bottlenecks:
            parts.append(parts[-1] + bottleneck(parts[-1]))
        return self.leave(torch.cat(parts, 1))


class PooledPyramid(nn.Module):
    """Three max poolings of 5 by 5, one after the other, joined."""

    def __init__(self, channels: int):
        super().__init__()
        self.enter, self.leave = convolution(channels, channels // 2, 1), convolution(2 * channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Of the same shape."""
        parts = [self.enter(x)]
        for _ in range(3):
            parts.append(functional.max_pool2d(parts[-1], 5, 1, 2))
        return self.leave(torch.cat(parts, 1))


class Backbone(nn.Module):
    """A classifier for images of any size: the convolutions of a detector, down to a 32nd, and a mean over all positions."""

    def __init__(self, width: int = 16, classes: int = 20):
        super().__init__()
        self.stem = nn.Sequential(convolution(3, width, 3, 2), convolution(width, 2 * width, 3, 2))
        self.stage1 = CrossStage(2 * width, 2 * width, 1)
        self.stage2 = nn.Sequential(convolution(2 * width, 4 * width, 3, 2), CrossStage(4 * width, 4 * width, 2))
        self.stage3 = nn.Sequential(convolution(4 * width, 8 * width, 3, 2), CrossStage(8 * width, 8 * width, 2))
        self.stage4 = nn.Sequential(
            convolution(8 * width, 16 * width, 3, 2), CrossStage(16 * width, 16 * width, 1), PooledPyramid(16 * width)
        )
        self.classes = nn.Linear(16 * width, classes)

    def scales(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Feature maps of an 8th, a 16th and a 32nd of the image's height and width."""
        eighth = self.stage2(self.stage1(self.stem(image)))
        sixteenth = self.stage3(eighth)
        return eighth, sixteenth, self.stage4(sixteenth)

    def forward(self, image: Tensor) -> Tensor:
        """Logits of classes."""
        return self.classes(self.scales(image)[-1].mean((2, 3)))


def backbone() -> Made:
    """The convolutions of :func:`detector`."""
    return Backbone(), (torch.randn(1, 3, 96, 128),)


class Detector(nn.Module):
    """A detector like YOLO: a backbone of cross-stage blocks, feature maps joined upwards, and one head for each of three scales."""

    def __init__(self, width: int = 16, classes: int = 20):
        super().__init__()
        self.backbone = Backbone(width)
        self.join3 = CrossStage(24 * width, 8 * width, 1)
        self.join2 = CrossStage(12 * width, 4 * width, 1)
        self.outputs = 4 + classes
        self.heads = nn.ModuleList(
            nn.Sequential(convolution(filters, filters), nn.Conv2d(filters, self.outputs, 1))
            for filters in (4 * width, 8 * width, 16 * width)
        )

    def forward(self, image: Tensor) -> Tensor:
        """Boxes and scores [batch, candidates, 4 + classes]; height and width are multiples of 32."""
        c2, c3, c4 = self.backbone.scales(image)
        p3 = self.join3(torch.cat([functional.interpolate(c4, scale_factor=2.0, mode="nearest"), c3], 1))
        p2 = self.join2(torch.cat([functional.interpolate(p3, scale_factor=2.0, mode="nearest"), c2], 1))
        scales = [head(scale).flatten(2) for head, scale in zip(self.heads, (p2, p3, c4), strict=True)]
        boxes, scores = torch.cat(scales, 2).transpose(1, 2).split([4, self.outputs - 4], 2)
        return torch.cat([boxes, scores.sigmoid()], 2)


def detector() -> Made:
    """A detector for images of any size."""
    return Detector(), (torch.randn(1, 3, 96, 128),)
