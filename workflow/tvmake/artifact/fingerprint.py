"""Which device a result was measured on."""

from pydantic import BaseModel, ConfigDict, Field

from tvmake.storage.documents import FailsFast


class Fingerprint(FailsFast, BaseModel):
    """Who a device is: everything that can change a measured result."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: str
    """``cpu``, ``opencl`` …"""
    soc: str
    """CPU or SoC model."""
    cores: int
    """Logical cores the process may use."""
    memory_bytes: int
    os: str
    """Operating system build."""
    runtime: str
    """TVM runtime version."""
    details: dict[str, str] = Field(default_factory=dict)
    """GPU, driver, governor and others, if known."""
