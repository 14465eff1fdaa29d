"""Options of the stages that use a device: deploy, validate, benchmark."""

from tvmake.config.benchmark import Measurement
from tvmake.config.device import OnDevice
from tvmake.config.validation import Goals
from tvmake.frontend.options import ImportOptions


class DeployRequest(OnDevice):
    """Where a package goes."""


class ValidateRequest(DeployRequest):
    """Which numerics a package must reach."""

    goals: Goals = Goals()
    """The goals of this model at this precision, defaults applied."""
    quantized_goals: Goals | None = None
    """The same for a source that is quantised, which the package tells; None where they are no others."""

    def goals_of(self, is_quantized: bool) -> Goals:
        """Those that hold for a package, by whether its source is quantised."""
        return self.quantized_goals if is_quantized and self.quantized_goals is not None else self.goals


class BenchmarkRequest(DeployRequest):
    """How a package is timed."""

    measurement: Measurement = Measurement()
    baseline: ImportOptions | None = None
    """The source model, to be measured beside the package in the framework it came from; None where that is not wanted, or not
    possible."""
