"""``targets:`` — what kernels are compiled for, in TVM's sense."""

import difflib
from functools import cache
from importlib import resources
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from tvmake.config.base import Name, Strict
from tvmake.config.tuning import TuningOptions

TargetKind = Literal["llvm", "c", "cuda", "opencl", "metal", "rocm", "vulkan", "hexagon", "webgpu"]


@cache
def known_tags() -> tuple[str, ...]:
    """Every target tag of the pinned TVM (``tests/target/test_tags.py`` keeps the list true)."""
    return tuple(resources.files("tvmake.config").joinpath("tags.txt").read_text().split())


class TargetConfig(Strict):
    """A TVM target: a ``tag`` or a ``kind``, refined by the attributes below."""

    kind: TargetKind | None = None
    """TVM's target kind; ``llvm`` when neither kind nor tag is given."""
    tag: str | None = None
    """A TVM target tag such as ``qcom/adreno-opencl`` or ``nvidia/jetson-orin-nano``."""
    mcpu: str | None = None
    """LLVM's CPU name; ``native`` means this machine's CPU."""
    mtriple: str | None = None
    """LLVM's target triple; this machine's when left out."""
    mattr: list[str] = Field(default_factory=list)
    """LLVM's CPU features (``+neon``)."""
    arch: str | None = None
    """CUDA's architecture (``sm_80``)."""
    attributes: dict[str, int | str | bool | list[str]] = Field(default_factory=dict)
    """Any other attribute of the target kind (``max_num_threads``, ``num-cores`` …)."""
    host: "TargetConfig | None" = None
    """The CPU side of a GPU target; this machine's CPU when left out."""
    cc: str | None = None
    """The compiler driver that links mod.so (``aarch64-linux-gnu-g++``); the system's g++ when left out."""
    device: Name | None = None
    """The device packages of this target run on; a CPU target for this machine runs here (``local``)."""
    tuning: TuningOptions | None = None
    """Overrides of the general ``tuning`` for this target, key by key."""

    @field_validator("tag")
    @classmethod
    def _known(cls, tag: str | None) -> str | None:
        if tag is not None and tag not in known_tags():
            close = difflib.get_close_matches(tag, known_tags(), n=1)
            hint = f"; did you mean '{close[0]}'?" if close else ""
            raise ValueError(f"no such target tag '{tag}'{hint} (`tvmake targets` lists all {len(known_tags())})")
        return tag

    @model_validator(mode="after")
    def _kind_or_tag(self) -> "TargetConfig":
        if self.kind and self.tag:
            raise ValueError("give a kind or a tag, not both")
        if self.host is not None and (self.host.host is not None or self.host.device is not None):
            raise ValueError("a host has no host or device of its own")
        if self.mcpu == "native" and self.mtriple:
            raise ValueError("mcpu 'native' is this machine's CPU: leave out mtriple, or name the CPU")
        return self

    @property
    def is_cpu(self) -> bool:
        """Whether the kernels themselves run on a CPU."""
        return self.kind in (None, "llvm", "c") and self.tag is None

    @property
    def is_native(self) -> bool:
        """Whether the code depends on the CPU of the machine that compiles it."""
        return self.mcpu == "native" or (self.host is not None and self.host.is_native)

    @property
    def runs_on(self) -> str | None:
        """The device's name; None for a target that is only compiled for."""
        if self.device:
            return self.device
        return "local" if self.is_cpu and self.mtriple is None and self.tag is None else None

    def tvm_attributes(self) -> dict[str, Any]:
        """The target as TVM's attribute mapping, without its host."""
        attributes: dict[str, Any] = {} if self.tag else {"kind": self.kind or "llvm"}
        if self.tag:
            attributes["tag"] = self.tag
        for key in ("mcpu", "mtriple", "arch"):
            if value := getattr(self, key):
                attributes[key] = value
        if self.mattr:
            attributes["mattr"] = list(self.mattr)
        return {**attributes, **self.attributes}
