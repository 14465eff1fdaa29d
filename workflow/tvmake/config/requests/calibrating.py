"""Options of the calibrate stage."""

from pydantic import Field

from tvmake.artifact.dims import Dims
from tvmake.config.dataset import DatasetConfig
from tvmake.options import Strict
from tvmake.quantize.precision import PrecisionConfig
from tvmake.transform.options import TransformOptions


class CalibrateRequest(Strict):
    """The network to run, and its inputs."""

    model: str
    precision: PrecisionConfig
    transform: TransformOptions = TransformOptions()
    """Only the passes before quantisation; the layout is chosen later and is ``keep`` here."""
    dims: Dims = Field(default_factory=dict)
    """Sizes of dynamic dimensions, or their bounds."""
    sample_dims: dict[str, int] = Field(default_factory=dict)
    """Sizes, in the samples, of dimensions that remain dynamic."""
    dataset: DatasetConfig | None = None
    samples: int = 16
    """Number of random inputs if there is no dataset."""
    seed: int = 0
    """Seed of the random inputs."""
