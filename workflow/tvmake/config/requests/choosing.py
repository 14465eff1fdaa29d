"""Options of the choose_precision stage."""

from pydantic import Field

from tvmake.artifact.dims import Dims
from tvmake.config.device import OnDevice
from tvmake.config.requests.building import BuildRequest
from tvmake.config.validation import Goals
from tvmake.quantize.precision import LayerPrecision, PrecisionConfig
from tvmake.transform.options import TransformOptions


class ChoosePrecisionRequest(OnDevice):
    """Candidate precisions of one variant's layers, and the goals of the result."""

    model: str
    precision: PrecisionConfig
    among: list[LayerPrecision]
    """The precision's candidates that the target supports; the most accurate first."""
    transform: TransformOptions = TransformOptions()
    """Only the passes of the transform stage."""
    dims: Dims = Field(default_factory=dict)
    """Sizes of dynamic dimensions, or their bounds."""
    build: BuildRequest
    goals: Goals = Goals()
    """Goals on numerics and on the package's size."""
    cooldown_s: float = 0.0
    """Pause between latency samples."""
