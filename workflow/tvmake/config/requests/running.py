"""Options of the stages that use a device: deploy, validate, benchmark."""

from tvmake.config.base import Strict
from tvmake.config.benchmark import Measurement
from tvmake.config.device import DeviceConfig
from tvmake.config.validation import Goals


class DeployRequest(Strict):
    """Where a package goes."""

    device_name: str = "local"
    device: DeviceConfig = DeviceConfig()


class ValidateRequest(DeployRequest):
    """Which numerics a package must reach."""

    goals: Goals = Goals()
    """The goals of this model at this precision, defaults applied."""


class BenchmarkRequest(DeployRequest):
    """How a package is timed."""

    measurement: Measurement = Measurement()
