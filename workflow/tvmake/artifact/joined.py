"""joined.json: what a package with several functions was joined from, and how many of its weights are shared."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from tvmake.storage.documents import FailsFast


class Joined(FailsFast, BaseModel):
    """A joined package, beside it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    functions: dict[str, str]
    """sha256 of each function's own package, by the function's name, in the order of the functions."""
    package_sha256: str
    package_bytes: int
    params_bytes: int
    """Size of the package's mod.params."""
    notes: list[str] = []
    """States that functions do not share, though they have the same name."""
    shared_states: dict[str, list[str]] = {}
    """States that several functions have, each with these functions."""
    distinct_bytes: int
    """Size of the distinct weights of the functions' networks before builds pack them: what the package needs at least."""
