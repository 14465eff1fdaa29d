"""``targets:`` — compilation targets, with their devices and tuning options."""

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

    A string instead of a mapping is a processor of the catalogue, a tag, a kind, or a target in the syntax of older TVM
    (``adreno-730-texture``, ``opencl -device=adreno``).
    """

    host: "TargetConfig | None" = None
    """The host CPU of a GPU target; this machine's CPU by default. A string may be a triple (``aarch64-linux-android``)."""
    device: Name | None = None
    """The device that runs packages of this target; ``local`` by default for a CPU target of this machine."""
    tuning: TuningOptions | None = None
    """Overrides of the general ``tuning`` for this target, key by key."""

    @model_validator(mode="before")
    @classmethod
    def _text(cls, value: Any) -> Any:
        if isinstance(value, str):
            return target_keys(value)
        if not isinstance(value, dict):
            return value
        value = dict(value)
        for key in ("kind", "tag"):
            written = value.get(key)
            if isinstance(written, str) and re.search(r"[\s,]", written.strip()):
                value = _override(target_keys(value.pop(key)), value)
        return value

    @field_validator("host", mode="before")
    @classmethod
    def _host_text(cls, host: Any) -> Any:
        return parse_host(host, get_args(TargetKind), known_tags()) if isinstance(host, str) else host

    @model_validator(mode="after")
    def _host_without_device(self) -> "TargetConfig":
        if self.host is not None and self.host.device is not None:
            raise ValueError("a host cannot have a host or a device")
        return self

    @property
    def runs_on(self) -> str | None:
        """The device's name; None if packages of this target are compiled only."""
        if self.device:
            return self.device
        is_known = self.tag is None or self.entry is not None
        return "local" if self.runs_on_cpu and is_known and self.triple is None else None

    def options(self) -> TargetOptions:
        """Return only the options that affect the code."""
        values = {name: getattr(self, name) for name in TargetOptions.model_fields if name in self.model_fields_set}
        if self.host is not None:
            values["host"] = self.host.options()
        return TargetOptions.model_construct(**values)


def target_keys(text: str) -> dict[str, Any]:
    """Parse a target's text into its keys.

    Raises:
        ValueError: the text is not a target.
    """
    return parse_target(text, get_args(TargetKind), known_tags())


def obstacle(target: TargetConfig, arithmetic: str) -> str | None:
    """Return the reason why a target does not support an arithmetic; None if it does."""
    if arithmetic == "tf32" and not target.has_tf32:
        return (
            f"TF32 needs an NVIDIA GPU from {FIRST_TF32} on, and a target of kind cuda with its architecture (`arch:`)"
        )
    if arithmetic.startswith("float16") and not target.has_float16:
        return f"'{target.tag}' does not compute in float16"
    return None


def _override(parsed: dict[str, Any], written: dict[str, Any]) -> dict[str, Any]:
    """Override the keys of a parsed text with explicit ones."""
    attributes = {**parsed.get("attributes", {}), **written.get("attributes", {})}
    return {**parsed, **written, **({"attributes": attributes} if attributes else {})}
