"""operator_errors.json: the noise of each operator of a package's network."""

from pydantic import BaseModel, ConfigDict, Field

from tvmake.storage.documents import FailsFast


class OperatorError(FailsFast, BaseModel):
    """One kernel call of the package's network."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    position: int = Field(ge=0)
    """Its place in the manifest's ``graph``."""
    kernel: str
    noise: float | None = Field(ge=0)
    """RMS of the difference to the original network's value, relative to that value's RMS; None if the original network has no such
    value, for example within an operator."""


class OperatorErrors(FailsFast, BaseModel):
    """The operators in the order of computation, for the first sample of the reference."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    operators: list[OperatorError] = []
    why_not: str = ""
    """Why there are none; empty if there are."""
