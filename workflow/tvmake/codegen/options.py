"""Options of lowering and code generation, and what to keep of it."""

from typing import Literal

from pydantic import Field, field_validator

from tvmake.codegen.known_passes import pass_problem, setting_problem
from tvmake.options import Strict
from tvmake.targets.options import TargetOptions
from tvmake.transform.options import UserPass

Dump = Literal["relax", "tir", "ll", "asm", "kernels", "passes", "times"]

PASS_TIME = "pass "
"""How the lines that ``times`` asks for begin in a log."""

Setting = bool | int


class PassOptions(Strict):
    """Under which rules TVM's passes run."""

    opt_level: int = Field(default=3, ge=0, le=4)
    """TVM's pass level: passes above it are left out."""
    pass_config: dict[str, Setting | dict[str, Setting]] = Field(default_factory=dict)
    """Settings of TVM's passes, by name (``tirx.disable_vectorize: true``, ``tirx.UnrollLoop: {auto_max_step: 16}``). They hold
    for the build, not for the measuring of candidates while tuning."""
    disabled_passes: list[str] = Field(default_factory=list)
    """Passes of TVM to leave out, by name (``tirx.StorageRewrite``). Most are needed: without one of those the build fails, and says so."""

    @field_validator("pass_config")
    @classmethod
    def _known_settings(cls, value: dict[str, Setting | dict[str, Setting]]) -> dict[str, Setting | dict[str, Setting]]:
        if problems := [problem for item in value.items() if (problem := setting_problem(*item))]:
            raise ValueError("; ".join(problems))
        return value

    @field_validator("disabled_passes")
    @classmethod
    def _known_passes(cls, value: list[str]) -> list[str]:
        if problems := [problem for name in value if (problem := pass_problem(name))]:
            raise ValueError("; ".join(problems))
        return value


class BuildOptions(PassOptions):
    """How a module becomes mod.so."""

    exec_mode: Literal["bytecode", "compiled"] = "bytecode"
    """Whether the VM interprets the graph or runs it compiled."""
    cuda_graph: bool = False
    """For CUDA targets: record the kernels of the first run as a CUDA graph, and launch that in the following ones. A
    program that loads the package must give it the same parameters each time."""
    schedule_rules: bool = True
    """Schedule the kernels that have no tuning record by rules for the target: its vectors and caches, or its threads and shared
    memory. Without them, such kernels are plain loops on one core of a CPU, and are left to TVM's own rules on GPUs."""
    dump: list[Dump] = Field(default_factory=list)
    """Texts to keep in ``sources/``: ``relax`` and ``tir``, ``ll`` (LLVM IR), ``asm``, ``kernels`` (device source, one file a kernel),
    ``passes`` (the module after each pass that changed it). ``times`` has the build's log end with how long each pass took."""


class PackageOptions(Strict):
    """What a package is built from a transformed network with."""

    model: str
    precision: str
    target_name: str
    target: TargetOptions = TargetOptions()
    build: BuildOptions = BuildOptions()
    passes: list[UserPass] = Field(default_factory=list)
    """Only the passes at this stage's points."""
