"""Options of the transform stage."""

from pydantic import Field

from tvmake.config.base import Strict
from tvmake.config.dims import Dims
from tvmake.config.precision import PrecisionConfig
from tvmake.config.transform import TransformOptions


class TransformRequest(Strict):
    """One model at one precision."""

    precision: PrecisionConfig = PrecisionConfig()
    transform: TransformOptions = TransformOptions()
    """Only the passes at this stage's points."""
    dims: Dims = Field(default_factory=dict)
    """Sizes of dynamic dimensions, or their bounds."""
