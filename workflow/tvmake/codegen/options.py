"""Options of lowering and code generation, and of kept sources."""

from difflib import get_close_matches
from functools import cache
from importlib import resources
from typing import Literal

from pydantic import Field, field_validator

from tvmake.artifact.dims import Shapes
from tvmake.options import Strict
from tvmake.targets.options import TargetOptions
from tvmake.transform.options import UserPass

Dump = Literal["relax", "tir", "ll", "asm", "kernels", "passes", "times"]

PASS_TIME = "pass "
"""Prefix of log lines with pass times."""

Setting = bool | int


@cache
def pass_names() -> frozenset[str]:
    """The passes that builds run, for any target."""
    return frozenset(resources.files("tvmake.codegen").joinpath("passes.txt").read_text().split())


def _pass_problem(name: str) -> str | None:
    """Why a pass cannot be disabled by this name; None if it can."""
    if name in pass_names():
        return None
    close = get_close_matches(name, pass_names(), n=1)
    hint = f"did you mean '{close[0]}'?" if close else "keep what runs with build.dump: [passes]"
    return f"no build runs a pass '{name}'; {hint}"


class PassOptions(Strict):
    """Options of TVM's passes."""

    opt_level: int = Field(default=3, ge=0, le=4)
    """TVM's pass level; passes above it are left out."""
    pass_config: dict[str, Setting | dict[str, Setting]] = Field(default_factory=dict)
    """Settings of TVM's passes, by name (``tirx.disable_vectorize: true``, ``tirx.UnrollLoop: {auto_max_step: 16}``).
    They apply to the build, not to measurements of candidates during tuning."""
    disabled_passes: list[str] = Field(default_factory=list)
    """Passes of TVM to leave out, by name (``tirx.StorageRewrite``). Most passes are needed: without one of these, the
    build fails with an error that names the setting."""

    @field_validator("disabled_passes")
    @classmethod
    def _known_passes(cls, value: list[str]) -> list[str]:
        if problems := [problem for name in value if (problem := _pass_problem(name))]:
            raise ValueError("; ".join(problems))
        return value


class BuildOptions(PassOptions):
    """Options of building mod.so from a module."""

    exec_mode: Literal["bytecode", "compiled"] = "bytecode"
    """Whether the VM interprets the graph or runs it compiled."""
    cuda_graph: bool = False
    """For CUDA targets: capture the kernels of the first run in a CUDA graph, and launch the graph in later runs. A
    program that loads the package must pass the same parameters in each run. With dynamic dimensions, a graph is kept
    for each shape; their bounds (``dims``) must allow at most 256 shapes."""
    schedule_rules: bool = True
    """Schedule the kernels without a tuning record by rules for the target: its vectors and caches, or its threads and
    shared memory. If false, such kernels are plain loops on one core of a CPU, and scheduled by TVM's own rules on
    GPUs."""
    dump: list[Dump] = Field(default_factory=list)
    """Texts to keep in ``sources/``: ``relax`` and ``tir``, ``ll`` (LLVM IR), ``asm``, ``kernels`` (device source, one
    file per kernel), ``passes`` (the module after each pass that changed it). ``times`` appends the time of each pass
    to the build's log."""


class PackageOptions(Strict):
    """Options of building a package from a transformed network."""

    model: str
    precision: str
    target_name: str
    target: TargetOptions = TargetOptions()
    build: BuildOptions = BuildOptions()
    passes: list[UserPass] = Field(default_factory=list)
    """Only the passes at this stage's points."""
    shapes: Shapes = Field(default_factory=list)
    """Sizes of dynamic dimensions for which the package has functions of their own."""
