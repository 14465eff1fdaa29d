"""Options of the stages that use a device: deploy, validate, benchmark."""

from tvmake.config.benchmark import Measurement
from tvmake.config.device import OnDevice
from tvmake.config.validation import Goals
from tvmake.frontend.options import ImportOptions


class DeployRequest(OnDevice):
    """Device of a package."""


class ValidateRequest(DeployRequest):
    """Numerical goals of a package."""

    goals: Goals = Goals()
    """The goals of this model at this precision, with defaults."""
    quantized_goals: Goals | None = None
    """Goals for a quantised source, as recorded in the package; None if they are the same."""

    def goals_of(self, is_quantized: bool) -> Goals:
        """Return the goals of a package with a quantised or a floating-point source."""
        return self.quantized_goals if is_quantized and self.quantized_goals is not None else self.goals


class BenchmarkRequest(DeployRequest):
    """Measurement of a package."""

    measurement: Measurement = Measurement()
    baseline: ImportOptions | None = None
    """The source model, which is measured with the package in its own framework; None if that is off or impossible."""
