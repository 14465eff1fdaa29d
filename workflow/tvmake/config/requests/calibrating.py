"""Options of the calibrate stage."""

from pydantic import Field

from tvmake.artifact.dims import Dims
from tvmake.config.dataset import DatasetConfig
from tvmake.options import Strict
from tvmake.quantize.precision import PrecisionConfig
from tvmake.transform.options import TransformOptions


class CalibrateRequest(Strict):
    """Which network is run, on which inputs."""

    model: str
    precision: PrecisionConfig
    transform: TransformOptions = TransformOptions()
    """Only the passes that come before quantisation; the layout, which comes later, is ``keep``."""
    dims: Dims = Field(default_factory=dict)
    """Sizes of dynamic dimensions, or their bounds."""
    sample_dims: dict[str, int] = Field(default_factory=dict)
    """Extents of the dimensions that stay dynamic."""
    dataset: DatasetConfig | None = None
    samples: int = 16
    """Random inputs to draw when there is no dataset."""
    seed: int = 0
    """Seed of the random inputs."""
