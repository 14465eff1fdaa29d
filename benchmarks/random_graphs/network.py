"""Networks as data, which can be drawn, stored and reduced."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import torch
from torch import Tensor, nn

Options = dict[str, Any]


@dataclass(frozen=True)
class Dimension:
    """A dynamic dimension of an input."""

    axis: int
    name: str
    least: int = 1


@dataclass(frozen=True)
class Input:
    """An input of a network."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    """``float32``, ``int64`` or ``bool``."""
    below: int = 1
    """Integers are drawn from 0 up to here, without it."""
    dimensions: tuple[Dimension, ...] = ()
    """Those that are dynamic."""

    def example(self, generator: torch.Generator, sizes: Mapping[str, int] | None = None) -> Tensor:
        """A value of this input; with other sizes of dynamic dimensions where some are given."""
        resized = {dimension.axis: (sizes or {})[dimension.name] for dimension in self.dimensions if sizes}
        shape = tuple(resized.get(axis, extent) for axis, extent in enumerate(self.shape))
        if self.dtype == "int64":
            return torch.randint(0, self.below, shape, generator=generator)
        value = torch.randn(shape, generator=generator)
        return value > 0 if self.dtype == "bool" else value


@dataclass(frozen=True)
class Step:
    """One operation."""

    kind: str
    operands: tuple[int, ...]
    """Values by their numbers: inputs first, then what steps make."""
    options: Options = field(default_factory=dict)
    seed: int = 0
    """Of the step's weights."""


@dataclass(frozen=True)
class Network:
    """Inputs, steps in their order, and which values are outputs."""

    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    seed: int = 0
    """Of the inputs' values."""

    def examples(self, sizes: Mapping[str, int] | None = None) -> list[Tensor]:
        """A value for each input."""
        generator = torch.Generator().manual_seed(self.seed)
        return [tensor.example(generator, sizes) for tensor in self.inputs]

    def __str__(self) -> str:
        first = len(self.inputs)
        lines = [f"v{number} = {tensor}" for number, tensor in enumerate(self.inputs)]
        for number, step in enumerate(self.steps, first):
            operands = [f"v{operand}" for operand in step.operands]
            options = [f"{name}={value!r}" for name, value in step.options.items()]
            lines.append(f"v{number} = {step.kind}({', '.join(operands + options)})")
        return "\n".join([*lines, f"return {', '.join(f'v{number}' for number in self.outputs)}"])


Operation = Callable[..., Tensor]
Draw = Callable[[Random, Tensor], Options | None]
Make = Callable[..., Operation]


@dataclass(frozen=True)
class Kind:
    """What a step can be.

    Attributes:
        draw: options for a first operand; None where it does not suit.
        make: the operation, from all operands and the options; a module where it has weights.
        partner: which other values may be further operands, given the first; None with one operand.
        partners: how many further operands there are, at most.
        weight: how often it is drawn, beside others.
    """

    draw: Draw
    make: Make
    partner: Callable[[Tensor, Tensor], bool] | None = None
    partners: int = 1
    weight: float = 1.0


class Of(nn.Module):
    """A function as a module."""

    def __init__(self, function: Operation):
        super().__init__()
        self.function = function

    def forward(self, *operands: Tensor) -> Tensor:
        """The function's value."""
        return self.function(*operands)


def made(kind: Kind, step: Step, operands: Sequence[Tensor]) -> nn.Module:
    """A step's operation, with weights that depend on its seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(step.seed)
        operation = kind.make(*operands, **step.options)
        module = operation if isinstance(operation, nn.Module) else Of(operation)
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            draw_values(name, tensor)
    return module.eval()


def draw_values(name: str, tensor: Tensor) -> None:
    """Give what starts as zeros or ones other values, so that swapping or dropping it shows."""
    with torch.no_grad():
        if name.endswith("running_var"):
            tensor.uniform_(0.5, 1.5)
        elif tensor.dtype == torch.float32 and (tensor == tensor.flatten()[:1].sum()).all():
            tensor.add_(torch.randn(tensor.shape) * 0.2)


class Program(nn.Module):
    """A network as a module.

    Raises:
        Exception: whatever torch says of steps that do not fit.
    """

    def __init__(self, network: Network, kinds: Mapping[str, Kind]):
        super().__init__()
        self.network = network
        self.parts = nn.ModuleList()
        values = network.examples()
        for step in network.steps:
            operands = [values[number] for number in step.operands]
            self.parts.append(made(kinds[step.kind], step, operands))
            with torch.no_grad():
                values.append(self.parts[-1](*operands))
        names = ", ".join(f"x{number}" for number in range(len(network.inputs)))
        namespace: dict[str, Any] = {}
        # torch.export names inputs after the arguments of forward, which have to be written out.
        exec(f"def forward(self, {names}):\n    return self.call({names})", namespace)
        self.forward = namespace["forward"].__get__(self)
        self.eval()

    def values(
        self, inputs: Sequence[Tensor], disturb: Callable[[Tensor], Tensor] = lambda value: value
    ) -> list[Tensor]:
        """All values, each disturbed once computed."""
        values = [disturb(value) for value in inputs]
        for step, part in zip(self.network.steps, self.parts, strict=True):
            values.append(disturb(part(*(values[number] for number in step.operands))))
        return values

    def call(self, *inputs: Tensor) -> Any:
        """The outputs."""
        values = self.values(inputs)
        found = tuple(values[number] for number in self.network.outputs)
        return found if len(found) > 1 else found[0]
