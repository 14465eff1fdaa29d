"""Options of the choose_precision stage."""

from pydantic import Field

from tvmake.artifact.dims import Dims
from tvmake.config.device import OnDevice
from tvmake.config.requests.building import BuildRequest
from tvmake.config.validation import Goals
from tvmake.quantize.precision import LayerPrecision, PrecisionConfig
from tvmake.transform.options import TransformOptions


class ChoosePrecisionRequest(OnDevice):
    """What the layers of one variant are chosen among, and what the result must reach."""

    model: str
    precision: PrecisionConfig
    among: list[LayerPrecision]
    """What the target can do of the precision's; the most accurate first."""
    transform: TransformOptions = TransformOptions()
    """Only the passes of the transform stage."""
    dims: Dims = Field(default_factory=dict)
    """Sizes of dynamic dimensions, or their bounds."""
    build: BuildRequest
    goals: Goals = Goals()
    """Those of numerics, and of the package's size."""
    cooldown_s: float = 0.0
    """Pause between samples of a latency."""
