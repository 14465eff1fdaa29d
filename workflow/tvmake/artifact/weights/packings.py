"""How a build packs a network's parameters for its kernels; the export does it. This module does not need TVM."""

from typing import Literal

from pydantic import BaseModel, ConfigDict


class PackingRun(BaseModel):
    """One run of a packing function: from parameters of the network to parameters of ``main``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    function: str
    sources: tuple[str, ...]
    results: tuple[str, ...]


class WeightPackings(BaseModel):
    """The runs that give a package's mod.params, in order; without any, it has the network's parameters unchanged."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    names: tuple[str, ...] = ()
    """The parameters of ``main``. Those that no run gives are the network's."""
    runs: tuple[PackingRun, ...] = ()
    functions: str = ""
    """The packing functions: a module as TVM's JSON."""
