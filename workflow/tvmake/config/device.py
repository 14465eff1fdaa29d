"""``devices:`` — how to reach the machines that packages run on."""

from typing import Literal

from pydantic import Field

from tvmake.config.base import Positive, Strict


class DeviceConfig(Strict):
    """One device, or several equal ones. ``local`` is this machine and needs no entry."""

    via: Literal["local"] = "local"
    """The transport: ``local`` runs packages on this machine, each in a process of its own."""
    threads: Positive | None = None
    """Worker threads for CPU kernels (TVM_NUM_THREADS); all cores when left out."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment variables for the process that runs packages."""
    timeout_s: float = Field(default=600, gt=0)
    """How long one run on the device may take, in seconds."""
