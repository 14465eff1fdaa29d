"""A network's inputs and outputs: names, shapes and dtypes, in order."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from tvmake.storage.documents import FailsFast

Dim = Annotated[int, Field(ge=0)] | str
"""A fixed extent, or the name of a dynamic dimension."""

Bounds = tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)] | None]
"""The minimum and the maximum size of a dynamic dimension; None without a maximum."""


class TensorSpec(FailsFast, BaseModel):
    """One input or output.

    ``name`` is the name in the source model, ``relax_name`` the one in the Relax function (``input.1`` becomes
    ``input_1``). ``shape`` has ints for fixed dimensions and names for dynamic ones; ``dtype`` is TVM's notation.
    ``range`` is an inclusive (low, high) bound of sensible values if the source has one (an embedding's row count, an image
    scaled to 0..1); random inputs stay within it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    relax_name: str
    shape: tuple[Dim, ...]
    dtype: str
    range: tuple[float, float] | None = None
    indices: tuple[int, int] | None = Field(default=None, exclude_if=lambda indices: indices is None)
    """The least and the greatest integer that selects a row of a constant table; packages refuse others."""

    @property
    def is_sized_by_data(self) -> bool:
        """Whether an output's size depends on the inputs' elements, as that of selected boxes: its dimensions have no other name."""
        return bool(self.shape) and self.shape == unnamed_shape(self.relax_name, len(self.shape))


class StateSpec(TensorSpec):
    """A tensor that a package keeps from run to run: ``main`` takes its value and returns its next one.

    It begins as zeros (:func:`tvmake.artifact.states.initial_states`).
    """

    next: TensorSpec
    """The source's output that is its next value, or what the source writes to it."""
    places: tuple[int, int] | None = Field(default=None, exclude_if=lambda places: places is None)
    """Where the source has both among its inputs and outputs; None for a tensor that it keeps itself."""
    source_shapes: tuple[tuple[Dim, ...], tuple[Dim, ...]] | None = Field(
        default=None, exclude_if=lambda shapes: shapes is None
    )
    """The shapes of both in the source, if the package keeps a buffer of another size."""

    @property
    def of_source(self) -> "StateSpec":
        """The state as the source has it."""
        if self.source_shapes is None:
            return self
        shape, following = self.source_shapes
        update = {"shape": shape, "next": self.next.model_copy(update={"shape": following}), "source_shapes": None}
        return self.model_copy(update=update)


def unnamed_shape(name: str, rank: int) -> tuple[str, ...]:
    """The dimensions of a tensor whose size is known only at run time."""
    return tuple(f"{name}_d{axis}" for axis in range(rank))


class Signature(FailsFast, BaseModel):
    """Ordered inputs, outputs and states of ``main``; parameters are not part of it.

    ``main`` takes the inputs, then the states' values, and returns the outputs, then the states' next values.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    states: tuple[StateSpec, ...] = Field(default=(), exclude_if=lambda states: not states)
    bounds: dict[str, Bounds] = Field(default_factory=dict, exclude_if=lambda bounds: not bounds)
    """Bounds of dynamic dimensions, by name; a missing one may have any size."""
    shapes: list[dict[str, Annotated[int, Field(ge=0)]]] = Field(
        default_factory=list, exclude_if=lambda shapes: not shapes
    )
    """The only sizes of dynamic dimensions, if a package has no code for others; without a batch that it pads or splits."""

    @property
    def arguments(self) -> tuple[TensorSpec, ...]:
        """What ``main`` takes before the parameters."""
        return (*self.inputs, *self.states)

    @property
    def results(self) -> tuple[TensorSpec, ...]:
        """What ``main`` returns."""
        return (*self.outputs, *(state.next for state in self.states))

    @property
    def of_source(self) -> "Signature":
        """The source's own signature, in which states are inputs and outputs, unless it keeps them itself."""
        inputs, outputs = list(self.inputs), list(self.outputs)
        states = [state.of_source for state in self.states]
        placed = [(state, state.places) for state in states if state.places is not None]
        for state, (place, _) in sorted(placed, key=lambda pair: pair[1][0]):
            inputs.insert(place, TensorSpec(**state.model_dump(exclude={"next", "places", "source_shapes"})))
        for state, (_, place) in sorted(placed, key=lambda pair: pair[1][1]):
            outputs.insert(place, state.next)
        return self.model_copy(update={"inputs": tuple(inputs), "outputs": tuple(outputs), "states": ()})

    @property
    def with_source_states(self) -> "Signature":
        """The same with the states as the source has them."""
        return self.model_copy(update={"states": tuple(state.of_source for state in self.states)})

    @property
    def dynamic_dimensions(self) -> dict[str, list[str]]:
        """The names of dynamic dimensions in their order, each with the inputs that have it; none that follow from others."""
        inputs: dict[str, list[str]] = {}
        for spec in self.inputs:
            for name in dict.fromkeys(extent for extent in spec.shape if isinstance(extent, str)):
                if not is_arithmetic(name):
                    inputs.setdefault(name, []).append(spec.name)
        return inputs

    @property
    def lengths(self) -> dict[str, str]:
        """The dimensions of states that change from run to run, as the length of a cache, each with the size in the next value."""
        return {
            extent: str(following)
            for state in self.states
            for extent, following in zip(state.shape, state.next.shape, strict=True)
            if isinstance(extent, str) and following != extent and not is_arithmetic(extent)
        }

    @property
    def default_sizes(self) -> dict[str, int]:
        """Sizes of dynamic dimensions for generated inputs, if not 1: the first shape's, or the smallest allowed ones."""
        smallest = {name: least for name, (least, _) in self.bounds.items() if least > 1}
        return smallest | (self.shapes[0] if self.shapes else {})


def is_arithmetic(extent: str) -> bool:
    """Whether an extent follows from others (``2*s0 + 1``), rather than being a name, which may have any other characters."""
    return any(sign in extent for sign in "+-*/()")
