"""Named processors: what their kernels may use, and where the numbers come from.

A target in a config may be one of these names (``targets: {phone: adreno-730-texture}``, or under ``tag:``). A name
stands for a target kind with its limits written out, so that schedules do not depend on TVM's defaults, which are those
of a desktop GPU or of nothing in particular.
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
    """Where the numbers come from."""
    is_conservative: bool
    """The numbers are chosen to be safe, not read from the device's documents."""
    has_float16: bool
    """Whether it computes in float16."""
    wave: int | None
    """Threads that run in step on a GPU; 1 where they do not, or it is not known."""
    images: Images | None
    """Limits of OpenCL images; None where there are none, or nothing is known of them."""
    attributes: Mapping[str, Attribute]
    """TVM's target attributes."""
    same_as: str | None = None
    """The family's entry that this name is short for."""

    @property
    def is_gpu(self) -> bool:
        """Whether kernels run on a GPU."""
        return self.kind != "llvm"

    @property
    def uses_textures(self) -> bool:
        """Whether tensors are kept in images."""
        keys = self.attributes.get("keys")
        return isinstance(keys, list) and "texture" in keys


@cache
def catalogue() -> dict[str, Entry]:
    """Every entry by name; families before their members."""
    entries = [entry for gpu in GPUS for entry in _of_gpu(gpu)] + [entry for cpu in CPUS for entry in _of_cpu(cpu)]
    found = {entry.name: entry for entry in entries}
    assert len(found) == len(entries), "a name stands twice in the catalogue"
    return found


def entry_of(name: str | None) -> Entry | None:
    """The entry of that name, if there is one."""
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
            # LLVM widens to float32 where a CPU has no float16 arithmetic: slower, and right.
            has_float16=True,
            wave=None,
            images=None,
            attributes=MappingProxyType(attributes),
        )
        for system, attributes in cpu.systems().items()
    ]
