"""Options of the stages that run the original model."""

from pydantic import Field

from tvmake.artifact.dims import Shapes
from tvmake.config.dataset import DatasetConfig
from tvmake.config.export import SelfTest
from tvmake.frontend.options import ImportOptions
from tvmake.options import Strict


class ReferenceRequest(Strict):
    """Inputs of the original model."""

    model: ImportOptions
    dims: dict[str, int] = Field(default_factory=dict)
    """Values for dynamic dimensions."""
    shapes: Shapes = Field(default_factory=list)
    """Sizes of dynamic dimensions that alternate from sample to sample."""
    dataset: DatasetConfig | None = None
    samples: int = 16
    """Number of random inputs if there is no dataset."""
    steps: int = 0
    """Samples in a sequence, for models with states; 0: all are one."""
    seed: int = 0
    """Seed of the random inputs."""


class SelfTestRequest(Strict):
    """Samples of the self-test in a model's packages."""

    model: ImportOptions
    dims: dict[str, int] = Field(default_factory=dict)
    """Values for dynamic dimensions."""
    shapes: Shapes = Field(default_factory=list)
    """Sizes of dynamic dimensions that alternate from sample to sample."""
    dataset: DatasetConfig | None = None
    """Set if the samples come from the dataset."""
    self_test: SelfTest = SelfTest()
