"""Options of the stages that run the original model."""

from pydantic import Field

from tvmake.config.dataset import DatasetConfig
from tvmake.config.export import SelfTest
from tvmake.frontend.options import ImportOptions
from tvmake.options import Strict


class ReferenceRequest(Strict):
    """Which inputs the original model is run on."""

    model: ImportOptions
    dims: dict[str, int] = Field(default_factory=dict)
    """Values for dynamic dimensions."""
    dataset: DatasetConfig | None = None
    samples: int = 16
    """Random inputs to draw when there is no dataset."""
    seed: int = 0
    """Seed of the random inputs."""


class SelfTestRequest(Strict):
    """Which samples the packages of a model test themselves by."""

    model: ImportOptions
    dims: dict[str, int] = Field(default_factory=dict)
    """Values for dynamic dimensions."""
    dataset: DatasetConfig | None = None
    """Where the samples are the dataset's."""
    self_test: SelfTest = SelfTest()
