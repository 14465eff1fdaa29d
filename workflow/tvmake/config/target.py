"""``targets:`` — what kernels are compiled for, on which device they run, and how they are tuned."""

import re
from typing import Any, get_args

from pydantic import field_validator, model_validator

from tvmake.config.base import Name
from tvmake.config.text.target import parse_host, parse_target
from tvmake.config.tuning import TuningOptions
from tvmake.targets.catalogue.tags import known_tags
from tvmake.targets.options import FIRST_TF32, TargetKind, TargetOptions


class TargetConfig(TargetOptions):
    """A TVM target: a ``tag`` or a ``kind``, refined by the attributes below.

    A text instead of a mapping names a processor of the catalogue, a tag, a kind, or a target as older TVM spelt it
    (``adreno-730-texture``, ``opencl -device=adreno``).
    """

    host: "TargetConfig | None" = None
    """The CPU side of a GPU target; this machine's CPU when left out. A text may be a triple (``aarch64-linux-android``)."""
    device: Name | None = None
    """The device packages of this target run on; a CPU target for this machine runs here (``local``)."""
    tuning: TuningOptions | None = None
    """Overrides of the general ``tuning`` for this target, key by key."""

    @model_validator(mode="before")
    @classmethod
    def _text(cls, value: Any) -> Any:
        if isinstance(value, str):
            return written_target(value)
        if not isinstance(value, dict):
            return value
        value = dict(value)
        for key in ("kind", "tag"):
            written = value.get(key)
            if isinstance(written, str) and re.search(r"[\s,]", written.strip()):
                value = _refined(written_target(value.pop(key)), value)
        return value

    @field_validator("host", mode="before")
    @classmethod
    def _host_text(cls, host: Any) -> Any:
        return parse_host(host, get_args(TargetKind), known_tags()) if isinstance(host, str) else host

    @model_validator(mode="after")
    def _host_without_device(self) -> "TargetConfig":
        if self.host is not None and self.host.device is not None:
            raise ValueError("a host has no host or device of its own")
        return self

    @property
    def runs_on(self) -> str | None:
        """The device's name; None for a target that is only compiled for."""
        if self.device:
            return self.device
        is_known = self.tag is None or self.entry is not None
        return "local" if self.runs_on_cpu and is_known and self.triple is None else None

    def options(self) -> TargetOptions:
        """Only what decides on the code."""
        values = {name: getattr(self, name) for name in TargetOptions.model_fields if name in self.model_fields_set}
        if self.host is not None:
            values["host"] = self.host.options()
        return TargetOptions.model_construct(**values)


def written_target(text: str) -> dict[str, Any]:
    """The keys of a target that a text stands for.

    Raises:
        ValueError: it stands for none.
    """
    return parse_target(text, get_args(TargetKind), known_tags())


def obstacle(target: TargetConfig, arithmetic: str) -> str | None:
    """The reason why a network that computes in a precision cannot be compiled for a target; None where it can."""
    if arithmetic == "tf32" and not target.has_tf32:
        return f"what multiplies in TF32 are NVIDIA's GPUs from {FIRST_TF32} on, with targets of kind cuda that say so (`arch:`)"
    if arithmetic.startswith("float16") and not target.has_float16:
        return f"'{target.tag}' does not compute in float16"
    return None


def _refined(parsed: dict[str, Any], written: dict[str, Any]) -> dict[str, Any]:
    """What a text stands for, with the keys written beside it over it."""
    attributes = {**parsed.get("attributes", {}), **written.get("attributes", {})}
    return {**parsed, **written, **({"attributes": attributes} if attributes else {})}
