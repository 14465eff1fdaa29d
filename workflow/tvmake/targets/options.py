"""Options of a TVM target and its linker."""

import re
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from tvmake.options import Positive, Strict
from tvmake.targets.catalogue.entries import Entry, catalogue, entry_of
from tvmake.targets.catalogue.names import suggestion
from tvmake.targets.catalogue.processors import OPENCL, SAFE_WARP
from tvmake.targets.catalogue.tags import known_tags

ANY_CUDA = "cuda-sm75"
"""The catalogue's entry with limits that every newer NVIDIA GPU has, too."""

TargetKind = Literal["llvm", "c", "cuda", "opencl", "metal", "rocm", "vulkan", "hexagon", "webgpu"]

ToolchainName = Literal["system", "gcc", "zig", "ndk"]

CPU_KINDS = ("llvm", "c")
WITHOUT_CPU = ("cuda", "opencl", "metal", "vulkan", "webgpu")
"""Kinds that do not use LLVM's code generator for a named processor."""

FIRST_TF32 = "sm_80"
"""NVIDIA's first architecture with TF32."""

ARCHITECTURE = re.compile(r"sm_([5-9]\d|1\d\d)[af]?")

GLIBC = re.compile(r"2\.\d{1,2}")

PROCESSOR = re.compile(
    r"(aarch64|amd64|amdgcn|arm|avr|bpf|hexagon|i[3-6]86|lanai|loongarch|mips|msp430|nvptx|powerpc|ppc|r600|riscv|s390x|"
    r"sparc|spirv|thumb|wasm|x86_64|xcore)\w*(-|$)"
)
"""Beginnings of the triples that TVM's LLVM can generate code for."""
TRIPLES = (
    "triples are x86_64-linux-gnu, aarch64-linux-gnu, aarch64-linux-android, armv7a-linux-gnueabihf, riscv64-linux-gnu and the like; "
    "`CC -dumpmachine` prints a compiler's"
)
COMMON_PROCESSORS = ("aarch64", "armv7a", "i686", "powerpc64le", "riscv64", "x86_64")


class TargetOptions(Strict):
    """A TVM target: a ``tag`` or a ``kind``, refined by the attributes below."""

    kind: TargetKind | None = None
    """TVM's target kind; ``llvm`` when neither kind nor tag is given."""
    tag: str | None = None
    """A processor of the catalogue (``adreno-730-texture``, ``cortex-a76-linux``) or one of TVM's target tags
    (``qcom/adreno-opencl``, ``nvidia/jetson-orin-nano``); ``tvmake targets`` lists both."""
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
    host: "TargetOptions | None" = None
    """The CPU side of a GPU target; this machine's CPU when left out."""
    cc: str | None = None
    """The compiler driver that links mod.so (``aarch64-linux-gnu-g++``); when left out, the toolchain's."""
    link_options: list[str] = Field(default_factory=list)
    """Further arguments of that driver (``-Wl,-z,max-page-size=16384``)."""
    toolchain: ToolchainName | None = None
    """Where the compiler driver comes from: the ``system``, a cross ``gcc``, ``zig``, or Android's ``ndk``
    (ANDROID_NDK_HOME); when left out, what fits the triple and is installed."""
    glibc: str | None = None
    """The oldest glibc that mod.so must load with (``2.31``); checked when it is linked, and given to zig."""
    android_api: Positive | None = None
    """The oldest Android API level that mod.so must load on; 24 (Android 7) when left out."""

    @field_validator("tag")
    @classmethod
    def _known(cls, tag: str | None) -> str | None:
        if tag is not None and tag not in known_tags() and tag not in catalogue():
            names = known_tags() if "/" in tag else [*catalogue(), *known_tags()]
            raise ValueError(f"no such target tag '{tag}'{suggestion(tag, names)}")
        return tag

    @field_validator("mtriple")
    @classmethod
    def _known_processor(cls, triple: str | None) -> str | None:
        # LLVM crashes on unknown processors.
        if triple is not None and not PROCESSOR.match(triple):
            name = triple.partition("-")[0]
            raise ValueError(f"LLVM knows no processor '{name}'{suggestion(name, COMMON_PROCESSORS, TRIPLES)}")
        return triple

    @field_validator("arch")
    @classmethod
    def _architecture(cls, arch: str | None) -> str | None:
        if arch is not None and not ARCHITECTURE.fullmatch(arch):
            raise ValueError(f"there is no architecture '{arch}'; write one of CUDA's, such as sm_75, sm_86 or sm_90")
        return arch

    @field_validator("mattr")
    @classmethod
    def _signed(cls, features: list[str]) -> list[str]:
        for feature in features:
            if not feature.startswith(("+", "-")):
                raise ValueError(f"a feature is switched on by + or off by -; write '+{feature}'")
        return features

    @field_validator("glibc")
    @classmethod
    def _glibc(cls, version: str | None) -> str | None:
        if version is not None and not GLIBC.fullmatch(version):
            raise ValueError(f"expected a version of glibc such as '2.31' (got '{version}')")
        return version

    @model_validator(mode="after")
    def _kind_or_tag(self) -> "TargetOptions":
        if self.kind and self.tag:
            raise ValueError("give a kind or a tag, not both")
        if self.host is not None and (not self.host.runs_on_cpu and self.host.tag is None):
            raise ValueError("a host is the CPU beside a GPU; name one, such as host: aarch64-linux-android")
        if self.host is not None and self.runs_on_cpu:
            raise ValueError("a CPU has no host; leave it out, and write its mtriple and mcpu beside the kind")
        if self.kind in WITHOUT_CPU and (self.mcpu or self.mattr or self.mtriple):
            raise ValueError(
                f"'{self.kind}' has no mcpu, mtriple and mattr, which are its host's; write them under host"
            )
        if self.host is not None and self.host.host is not None:
            raise ValueError("a host has no host or device of its own")
        if self.mcpu == "native" and self.triple:
            raise ValueError("mcpu 'native' is this machine's CPU: leave out mtriple, or name the CPU")
        if self.cc and self.toolchain:
            raise ValueError("give cc or a toolchain, not both")
        if self._is_opencl and self.attributes.get("thread_warp_size", SAFE_WARP) != SAFE_WARP:
            raise ValueError("thread_warp_size must be 1 for OpenCL, where TVM has no barrier for a warp; leave it out")
        if self.uses_textures and self.entry is not None and self.entry.images is None:
            raise ValueError(f"'{self.tag}' has no images that textures could be kept in; leave out the key 'texture'")
        return self

    @property
    def entry(self) -> Entry | None:
        """The processor's entry in the catalogue, or None."""
        return entry_of(self.tag)

    @property
    def runs_on_cpu(self) -> bool:
        """Whether the kernels themselves run on a CPU."""
        if self.entry is not None:
            return not self.entry.is_gpu
        return self.kind in (None, *CPU_KINDS) and self.tag is None

    def why_plain_loops(self, has_rules: bool) -> str | None:
        """Why kernels without a record are plain loops on one core; None if something schedules them.

        Args:
            has_rules: whether the build may use rules of tvmake.
        """
        if not self.runs_on_cpu:
            return None
        if self.kind == "c":
            return "there are no rules for targets of kind c"
        return None if has_rules else "build.schedule_rules is false"

    @property
    def _is_opencl(self) -> bool:
        kind = self.entry.kind if self.entry else self.kind
        return kind == OPENCL or "opencl" in str(self.tag)

    @property
    def triple(self) -> str | None:
        """The LLVM triple of a CPU; None for this machine's, or if only TVM's tag knows it."""
        named = self.entry.attributes.get("mtriple") if self.entry else None
        return self.mtriple or (str(named) if named else None)

    @property
    def is_native(self) -> bool:
        """Whether the code depends on the CPU of the machine that compiles it."""
        return self.mcpu == "native" or (self.host is not None and self.host.is_native)

    @property
    def uses_textures(self) -> bool:
        """Whether tensors are stored in images."""
        keys = self.attributes.get("keys")
        if isinstance(keys, list):
            return "texture" in keys
        return (self.entry is not None and self.entry.uses_textures) or str(self.tag).endswith("-texture")

    @property
    def has_float16(self) -> bool:
        """Whether the processor computes in float16; True if the catalogue does not know."""
        return self.entry is None or self.entry.has_float16

    @property
    def has_tf32(self) -> bool:
        """Whether the processor multiplies in TF32, as far as the catalogue knows."""
        attributes = self.tvm_attributes()
        if "kind" not in attributes:
            return "nvidia" in str(self.tag)  # one of TVM's tags
        digits = "".join(filter(str.isdigit, str(attributes.get("arch", ""))))
        return attributes["kind"] == "cuda" and int(digits or 0) >= int(FIRST_TF32.removeprefix("sm_"))

    def _limits(self) -> dict[str, Any]:
        """The limits of the architecture of an NVIDIA GPU that is named by its kind, for schedules and tuning."""
        if self.kind != "cuda":
            return {}
        named = catalogue()
        entry = named.get(f"cuda-{(self.arch or '').replace('_', '')}", named[ANY_CUDA])
        return {key: value for key, value in entry.attributes.items() if key != "arch"}

    def tvm_attributes(self) -> dict[str, Any]:
        """The target as TVM's attribute mapping, without its host."""
        attributes: dict[str, Any]
        if self.entry is not None:
            named = {
                key: list(value) if isinstance(value, list) else value for key, value in self.entry.attributes.items()
            }
            attributes = {"kind": self.entry.kind, **named}
        else:
            attributes = {"tag": self.tag} if self.tag else {"kind": self.kind or "llvm", **self._limits()}
        for key in ("mcpu", "mtriple", "arch"):
            if value := getattr(self, key):
                attributes[key] = value
        if self.mattr:
            attributes["mattr"] = list(self.mattr)
        if "max_num_threads" in self.attributes:
            # TVM's schedules read one of the two names.
            attributes["max_threads_per_block"] = self.attributes["max_num_threads"]
        return {**attributes, **self.attributes}
