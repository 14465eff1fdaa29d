"""Recent failures of devices, stored on this machine for all processes and workflows."""

import re
import time
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tvmake.artifact import stage_json
from tvmake.device.store import store_root
from tvmake.errors import InputError

FAILURES = 3
"""Failures in a row after which a device is set aside."""

REST_S = 3600.0
"""A device that was set aside is tried again after this time."""


class Health(BaseModel):
    """The recorded failures of a device."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    failures: int = 0
    """Failures in a row until now."""
    why: str = ""
    at: float = 0.0
    """The time of the last failure, in seconds since 1970."""

    @property
    def is_set_aside(self) -> bool:
        """Whether other devices are used instead."""
        return self.failures >= FAILURES and time.time() - self.at < REST_S


def health(device_id: str) -> Health:
    """The recorded failures; none if the file cannot be read.

    Args:
        device_id: the transport and the device's address.
    """
    try:
        return stage_json.load(Health, _file(device_id))
    except InputError:
        return Health()


def record_failure(device_id: str, why: str) -> Health:
    now = Health(failures=health(device_id).failures + 1, why=why, at=time.time())
    stage_json.save(now, _file(device_id))
    return now


def clear_failures(device_id: str) -> None:
    """Remove the record of failures."""
    _file(device_id).unlink(missing_ok=True)


def file_name(device_id: str) -> str:
    """A device's identity as a file name."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", device_id)


def _file(device_id: str) -> Path:
    return store_root().parent / "health" / f"{file_name(device_id)}.json"
