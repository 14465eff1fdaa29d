"""``zoo:<name>``: well-known image networks with random weights, for demonstrations, benchmarks and tests.

The weights are not trained. They are drawn from a seed and calibrated once on synthetic images, layer by layer, so that
every layer's output has zero mean and unit variance per channel (the data-dependent initialisation of Krähenbühl et al.,
arXiv:1511.06856; batch norms collect their statistics). Without calibration the activations of a deep random network
vanish or collapse onto one direction, so the output hardly depends on the input and a comparison with the reference proves
nothing.
"""

import difflib
from typing import Annotated, Any

import torch
from pydantic import Field, ValidationError, create_model
from torch import Tensor, nn

from tvmake.errors import InputError
from tvmake.frontend.one_thread import one_thread
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.zoo.networks import NETWORKS, SMALLEST_SIZE, build
from tvmake.frontend.zoo_names import ZOO
from tvmake.options import Positive, Strict

INPUT_RANGE = (-2.0, 2.0)
"""Values of the input ``x``: an image with its mean removed, divided by its standard deviation."""

CALIBRATION_IMAGES = 8
# Pixels. Smaller than the networks' input sizes, so that calibration takes a second or two. At 128, Inception's last
# feature maps would be 2×2, too few samples for its statistics.
CALIBRATION_SIZE = {name: 224 if name == "inception_v3" else 128 for name in NETWORKS}


class Arguments(Strict):
    """``arguments:`` of every zoo network."""

    num_classes: Positive = 1000
    """Logits per image."""
    size: Positive = 224
    """Height and width of the input images."""
    batch: Positive = 1
    """Images per call."""


_WIDTH: Any = (Annotated[float, Field(gt=0, le=4)], 1.0)


def arguments_model(name: str) -> type[Arguments]:
    """The model of the arguments of the network ``name``, with its defaults."""
    fields: dict[str, Any] = {"width": _WIDTH} if name.startswith("mobilenet") else {}
    size: Any = (Annotated[int, Field(ge=SMALLEST_SIZE.get(name, 1))], 299 if name == "inception_v3" else 224)
    return create_model("Arguments", __base__=Arguments, size=size, **fields)


def export(source: str, options: ImportOptions) -> torch.export.ExportedProgram:
    """Build ``zoo:<name>`` with weights drawn from ``options.seed``, and export it.

    The program takes ``x``, float32 (batch, 3, size, size), and returns float32 (batch, num_classes). The weights
    depend on the name, seed, ``num_classes`` and ``width`` alone, not on batch or size.

    Raises:
        InputError: there is no such network, or it has no such argument.
    """
    network, arguments = _network(source, options)
    image = torch.zeros(arguments.batch, 3, arguments.size, arguments.size)
    return torch.export.export(network, (image,))


def network(source: str, options: ImportOptions) -> nn.Module:
    """The network of ``zoo:<name>`` in eval mode, to run it in PyTorch.

    Raises:
        InputError: as :func:`export`.
    """
    return _network(source, options)[0]


def _network(source: str, options: ImportOptions) -> tuple[nn.Module, Arguments]:
    arguments = checked_arguments(source, options)
    constructor_arguments = arguments.model_dump(exclude={"size", "batch"})
    return seeded_network(source.removeprefix(ZOO), options.seed, **constructor_arguments), arguments


def seeded_network(name: str, seed: int, **arguments: Any) -> nn.Module:
    """The network ``name`` in eval mode with seeded, calibrated weights; the bits are equal in every process on a machine."""
    generator = torch.Generator().manual_seed(seed)
    with torch.device("meta"):  # allocates nothing and does not change the global random state
        network = build(name, **arguments)
    network.to_empty(device="cpu")
    with torch.no_grad(), one_thread():
        _draw(network, generator)
        _calibrate(network, _images(generator, CALIBRATION_IMAGES, CALIBRATION_SIZE[name]))
    return network.eval().requires_grad_(False)


def checked_arguments(source: str, options: ImportOptions) -> Arguments:
    """The arguments of ``zoo:<name>``, with defaults.

    Raises:
        InputError: the network has no such argument.
    """
    name = source.removeprefix(ZOO)
    model = arguments_model(name)
    try:
        return model(**options.arguments)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            close = difflib.get_close_matches(key, model.model_fields, n=1)
            problem = f"'{name}' takes no argument '{key}'" + (f"; did you mean '{close[0]}'?" if close else "")
        else:
            problem = f"arguments.{key}: {first['msg'][0].lower()}{first['msg'][1:]}, not {first['input']!r}"
        defaults = ", ".join(f"{field} ({info.default})" for field, info in model.model_fields.items())
        raise InputError(source, problem, f"it takes, with these defaults: {defaults}") from error


def _draw(network: nn.Module, generator: torch.Generator) -> None:
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu", generator=generator)
            if module.bias is not None:
                module.bias.zero_()
        elif isinstance(module, nn.BatchNorm2d):
            module.reset_running_stats()
            # Scales and shifts like those of a trained network, so that an error in them changes the output.
            module.weight.uniform_(0.8, 1.2, generator=generator)
            module.bias.normal_(0.0, 0.1, generator=generator)


def _images(generator: torch.Generator, count: int, size: int) -> Tensor:
    """Images with noise of all scales, (count, 3, size, size), within INPUT_RANGE.

    Each image is a random mixture of uniform noise on grids of 4×4 up to size×size pixels, so that the statistics hold for
    photographs, which are smooth, and for random inputs, which are white noise.
    """
    low, high = INPUT_RANGE
    grids = [min(4 << octave, size) for octave in range(6)] + [size]
    layers = torch.stack(
        [
            nn.functional.interpolate(
                torch.rand(count, 3, grid, grid, generator=generator) * (high - low) + low,
                size=(size, size),
                mode="bilinear",
                align_corners=False,
            )
            for grid in grids
        ]
    )
    # Cubes of uniform weights: most images have one or two dominant scales.
    weights = torch.rand(len(grids), count, 1, 1, 1, generator=generator) ** 3
    weights[:, ::4] = 0
    weights[-1, ::4] = 1
    return (layers * (weights / weights.square().sum(0).sqrt())).sum(0).clamp(low, high)


def _calibrate(network: nn.Module, images: Tensor) -> None:
    """Give every layer's output zero mean and unit variance in one pass over ``images``.

    Batch norms in training mode with ``momentum=None`` average the statistics. A hook normalises a layer with a bias in place,
    before the next layer runs. A convolution is normalised per channel. For a linear layer, the mean is per unit and the
    variance over all units, because the images are too few for a variance per unit.
    """

    def normalise(layer: nn.Conv2d | nn.Linear, _: Any, output: Tensor) -> Tensor:
        is_conv = isinstance(layer, nn.Conv2d)
        mean = output.mean((0, 2, 3) if is_conv else 0)
        centred = output - (mean[:, None, None] if is_conv else mean)
        deviation = centred.square().mean((0, 2, 3) if is_conv else (0, 1)).sqrt().clamp_min(1e-6)
        layer.weight.div_(deviation[:, None, None, None] if is_conv else deviation)
        layer.bias.copy_((layer.bias - mean) / deviation)
        return centred / (deviation[:, None, None] if is_conv else deviation)

    hooks = []
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None
            module.train()
        elif isinstance(module, nn.Conv2d | nn.Linear) and module.bias is not None:
            hooks.append(module.register_forward_hook(normalise))
    network(images)
    for hook in hooks:
        hook.remove()
