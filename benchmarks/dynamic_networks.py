"""Networks with dynamic dimensions, for benchmarks/dynamic_dimensions.py: ``python dynamic_networks.py NAME FILE`` exports one to ONNX.

Image classifiers with a dynamic batch; an encoder with dynamic batch and length; a decoder with dynamic length and past; the
convolutions of a detector, a U-Net and a detector with dynamic height and width. Weights are drawn.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

OPSET = 17
VOCABULARY = 2000
"""Token ids are below it."""

Axes = Mapping[str, Mapping[int, str]]
"""By the name of an input or output: its dynamic axes, each with the dimension's name."""


@dataclass(frozen=True)
class DynamicNetwork:
    """A network, its dynamic dimensions, and the sizes at which it runs."""

    source: str
    """A network of untuned_latency.py, or the name of a function of :mod:`dynamic_modules`."""
    inputs: Axes
    outputs: Axes
    dimensions: Sequence[str]
    sizes: Sequence[tuple[int, ...]]
    """Values of the dimensions, in their order."""

    @property
    def largest(self) -> tuple[int, ...]:
        """The largest value of each dimension."""
        return tuple(map(max, zip(*self.sizes, strict=True)))

    def dims(self, size: Sequence[int]) -> dict[str, int]:
        """A size, by the dimensions' names."""
        return dict(zip(self.dimensions, size, strict=True))


def _classifier(source: str) -> DynamicNetwork:
    return DynamicNetwork(source, {"image": {0: "batch"}}, {"logits": {0: "batch"}}, ("batch",), ((1,), (3,), (8,)))


IMAGE: Axes = {"image": {2: "height", 3: "width"}}
IMAGE_SIZES = ((96, 96), (160, 224), (320, 256))

NETWORKS: Mapping[str, DynamicNetwork] = {
    "resnet18": _classifier("zoo:resnet18"),
    "mobilenet_v2": _classifier("zoo:mobilenet_v2"),
    "efficientnet_b0": _classifier("timm:efficientnet_b0"),
    "vit_tiny": _classifier("timm:vit_tiny_patch16_224"),
    "encoder": DynamicNetwork(
        "encoder",
        {"ids": {0: "batch", 1: "length"}},
        {"hidden": {0: "batch", 1: "length"}},
        ("batch", "length"),
        ((1, 1), (1, 16), (1, 128), (4, 61)),
    ),
    "decoder": DynamicNetwork(
        "decoder",
        {"ids": {1: "length"}, "past_keys": {3: "past"}, "past_values": {3: "past"}},
        {"logits": {}, "keys": {3: "total"}, "values": {3: "total"}},
        ("length", "past"),
        tuple(product((1, 17, 64), (0, 31, 255))),
    ),
    "backbone": DynamicNetwork("backbone", IMAGE, {"logits": {}}, ("height", "width"), IMAGE_SIZES),
    "unet": DynamicNetwork("unet", IMAGE, {"mask": IMAGE["image"]}, ("height", "width"), IMAGE_SIZES),
    "detector": DynamicNetwork("detector", IMAGE, {"boxes": {1: "candidates"}}, ("height", "width"), IMAGE_SIZES),
}


def network(source: str) -> "tuple[nn.Module, tuple[Any, ...]]":
    """A network in eval mode, and inputs to export it with."""
    import torch

    if ":" in source:
        from untuned_latency import network as classifier

        module, (image,) = classifier(source)
        return module, (torch.cat([image, image]),)  # a batch of 1 would be taken for a constant
    import dynamic_modules
    from breadth_networks import settle_norms

    make: Callable[[], tuple[nn.Module, tuple[Any, ...]]] = getattr(dynamic_modules, source)
    torch.manual_seed(0)
    module, inputs = make()
    return settle_norms(module, inputs), inputs


def export(name: str, file: str) -> None:
    """Write a network as an ONNX file with its dynamic dimensions."""
    import torch

    wanted = NETWORKS[name]
    module, inputs = network(wanted.source)
    axes = {key: dict(of_value) for key, of_value in {**wanted.inputs, **wanted.outputs}.items() if of_value}
    torch.onnx.export(
        module,
        inputs,
        file,
        dynamo=False,
        opset_version=OPSET,
        input_names=list(wanted.inputs),
        output_names=list(wanted.outputs),
        dynamic_axes=axes,
    )


if __name__ == "__main__":
    export(*sys.argv[1:])
