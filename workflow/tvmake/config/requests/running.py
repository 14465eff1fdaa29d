"""Options of the stages that use a device: deploy, validate, benchmark."""

from tvmake.config.benchmark import Measurement
from tvmake.config.device import OnDevice
from tvmake.config.model import ImportOptions
from tvmake.config.validation import Goals


class DeployRequest(OnDevice):
    """Where a package goes."""


class ValidateRequest(DeployRequest):
    """Which numerics a package must reach."""

    goals: Goals = Goals()
    """The goals of this model at this precision, defaults applied."""


class BenchmarkRequest(DeployRequest):
    """How a package is timed."""

    measurement: Measurement = Measurement()
    baseline: ImportOptions | None = None
    """The source model, to be measured beside the package in the framework it came from; None where that is not wanted, or not
    possible."""
