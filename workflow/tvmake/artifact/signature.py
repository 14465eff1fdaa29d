"""What goes into a network and what comes out: names, shapes and dtypes, in order."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from tvmake.storage.documents import FailsFast

Dim = Annotated[int, Field(ge=0)] | str
"""A fixed extent, or the name of a dynamic dimension."""


class TensorSpec(FailsFast, BaseModel):
    """One input or output.

    ``name`` is the name in the source model, ``relax_name`` the one in the Relax function (``input.1`` becomes
    ``input_1``). ``shape`` holds ints for fixed extents and names for dynamic ones; ``dtype`` is TVM's spelling.
    ``range`` is an inclusive (low, high) bound of sensible values where the source tells one (an embedding's row
    count, an image scaled to 0..1); random inputs stay inside it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    relax_name: str
    shape: tuple[Dim, ...]
    dtype: str
    range: tuple[float, float] | None = None


class Signature(FailsFast, BaseModel):
    """Ordered inputs and outputs of ``main``; parameters are not part of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
