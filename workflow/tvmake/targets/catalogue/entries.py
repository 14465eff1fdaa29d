"""Named processors: what their kernels may use, and the sources of the figures.

A target in a config may be one of these names (``targets: {phone: adreno-730-texture}``, or under ``tag:``). A name
means a target kind with explicit limits. Schedules then do not depend on TVM's defaults, which suit a desktop GPU or no
device in particular.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Literal

from tvmake.targets.catalogue.cpus import CPUS
from tvmake.targets.catalogue.gpus import GPUS
from tvmake.targets.catalogue.processors import Attribute, Cpu, Gpu, Images

Mode = Literal["buffer", "texture", "clml"]

MODES: dict[Mode, str] = {
    "buffer": "tensors in buffers",
    "texture": "tensors in images where the shapes allow it, which go through the GPU's texture cache",
    "clml": "operators that Qualcomm's CLML library has are left to it",
}


@dataclass(frozen=True)
class Entry:
    """One name of the catalogue."""

    name: str
    kind: str
    """TVM's target kind."""
    what: str
    """The processor, in words."""
    source: str
    """The source of the figures."""
    is_conservative: bool
    """The figures are safe guesses, not from the device's documents."""
    has_float16: bool
    """Whether it computes in float16."""
    wave: int | None
    """Threads that run in lockstep on a GPU; 1 if they do not, or if unknown."""
    images: Images | None
    """Limits of OpenCL images; None if unsupported or unknown."""
    attributes: Mapping[str, Attribute]
    """TVM's target attributes."""
    same_as: str | None = None
    """The family's entry for which this name is an alias."""

    @property
    def is_gpu(self) -> bool:
        """Whether kernels run on a GPU."""
        return self.kind != "llvm"

    @property
    def uses_textures(self) -> bool:
        """Whether tensors are stored in images."""
        keys = self.attributes.get("keys")
        return isinstance(keys, list) and "texture" in keys


@cache
def catalogue() -> dict[str, Entry]:
    """Every entry by name; families before their members."""
    entries = [entry for gpu in GPUS for entry in _of_gpu(gpu)] + [entry for cpu in CPUS for entry in _of_cpu(cpu)]
    by_name = {entry.name: entry for entry in entries}
    assert len(by_name) == len(entries), "duplicate name in the catalogue"
    return by_name


def entry_of(name: str | None) -> Entry | None:
    """The entry with that name, or None."""
    return catalogue().get(name) if name else None


def _of_gpu(gpu: Gpu) -> list[Entry]:
    entries = []
    modes: tuple[Mode | None, ...] = ("buffer", "texture", "clml") if gpu.device == "adreno" else (None,)
    for mode in modes:
        suffix = f"-{mode}" if mode else ""
        family = Entry(
            name=gpu.name + suffix,
            kind=gpu.kind,
            what=gpu.what,
            source=gpu.source,
            is_conservative=gpu.is_conservative,
            has_float16=gpu.has_float16,
            wave=gpu.warp,
            images=gpu.images,
            attributes=MappingProxyType(gpu.attributes(mode if mode in ("texture", "clml") else None)),
        )
        entries.append(family)
        entries += [replace(family, name=member + suffix, same_as=family.name) for member in gpu.members]
    return entries


def _of_cpu(cpu: Cpu) -> list[Entry]:
    return [
        Entry(
            name=f"{cpu.name}-{system}" if system else cpu.name,
            kind="llvm",
            what=cpu.what,
            source=cpu.source,
            is_conservative=cpu.is_conservative,
            # Without float16 arithmetic, LLVM widens to float32: slower, but correct.
            has_float16=True,
            wave=None,
            images=None,
            attributes=MappingProxyType(attributes),
        )
        for system, attributes in cpu.systems().items()
    ]
