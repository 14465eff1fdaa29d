"""The report of a self-test, as JSON."""

import json
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from tvmake.artifact.fingerprint import Fingerprint

SCHEMA = 1

Verdict = Literal["ok", "wrong", "failed", "not there"]
"""``wrong``: the values are wrong; ``failed``: it could not be compiled or run; ``not there``: the device does not support it,
which is not a fault."""


SetName = Literal["operators", "probes"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Answer(_Part):
    """One operator or probe, on one target in one precision."""

    set: SetName
    name: str
    target: str
    precision: str
    verdict: Verdict
    sqnr_db: float | None = None
    """Signal to error, in dB, against the reference in float32."""
    max_abs_rms: float | None = None
    """Largest error, as a share of the reference's RMS."""
    in_images: bool = False
    """Whether kernels of the package keep tensors in images."""
    problem: str = ""
    """Why it failed or is not there; for a wrong probe, the fault that it detects."""


class Report(_Part):
    """A device's self-test."""

    schema_version: int = SCHEMA
    device: str
    via: str
    versions: dict[str, str]
    fingerprints: dict[str, Fingerprint]
    """By the kind of device that kernels ran on: who it is, and all that its driver reports (capabilities)."""
    answers: list[Answer]
    seconds: float
    """That it all took."""

    @property
    def faults(self) -> list[Answer]:
        """The wrong and failed answers."""
        return [answer for answer in self.answers if answer.verdict in ("wrong", "failed")]


def is_report(file: Path) -> bool:
    """Whether a file is such a report, of any version."""
    try:
        content = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and {"answers", "fingerprints", "seconds"} <= content.keys()
