"""Which of several equal devices failed lately: remembered on this machine, across processes and workflows."""

import re
import time
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tvmake.artifact import stage_json
from tvmake.device.store import store_root
from tvmake.errors import InputError

FAILURES = 3
"""So many in a row, and a device is set aside."""

REST_S = 3600.0
"""A device that was set aside is tried again after this time."""


class Health(BaseModel):
    """What is remembered of a device."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    failures: int = 0
    """In a row, up to now."""
    why: str = ""
    at: float = 0.0
    """When the last one was; seconds since 1970."""

    @property
    def is_set_aside(self) -> bool:
        """Whether others are used instead."""
        return self.failures >= FAILURES and time.time() - self.at < REST_S


def health(place: str) -> Health:
    """What is remembered; a file that cannot be read says nothing.

    Args:
        place: the transport and the device's address.
    """
    try:
        return stage_json.load(Health, _file(place))
    except InputError:
        return Health()


def failed(place: str, why: str) -> Health:
    """Remember one more failure."""
    now = Health(failures=health(place).failures + 1, why=why, at=time.time())
    stage_json.save(now, _file(place))
    return now


def recovered(place: str) -> None:
    """Forget failures."""
    _file(place).unlink(missing_ok=True)


def file_name(place: str) -> str:
    """A place as a file's name."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", place)


def _file(place: str) -> Path:
    return store_root().parent / "health" / f"{file_name(place)}.json"
