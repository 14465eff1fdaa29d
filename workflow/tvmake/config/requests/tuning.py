"""Options of the stages that tune: choose_layout, extract, budget, tune, pick_best."""

from pydantic import Field

from tvmake.config.base import Positive, Strict
from tvmake.config.device import DeviceConfig
from tvmake.config.target import TargetConfig
from tvmake.config.transform import Layout, UserPass
from tvmake.config.tuning import CostModel, Share, Strategy, TrialMeasurement


class ExtractRequest(Strict):
    """Which kernels a variant consists of."""

    target_name: str
    target: TargetConfig = TargetConfig()
    opt_level: int = 3
    passes: list[UserPass] = Field(default_factory=list)
    """The build's passes that run before kernels are fused, or on the fused module."""
    cpu: str | None = None
    """Identity of the compiling machine's CPU, for targets that depend on it."""


class ModelBudget(Strict):
    """What one variant may spend."""

    trials: int
    trials_per_kernel: int | None = None
    floor: int = 16


class BudgetRequest(Strict):
    """How the trials of all variants of a target are spread over their kernels."""

    target_name: str
    number: Positive
    """Which pass this is, from 1."""
    passes: Positive
    variants: dict[str, ModelBudget]
    """By ``model/precision``."""


class SearchOptions(Strict):
    """How candidates are chosen; see :class:`tvmake.config.tuning.TuningOptions`."""

    strategy: Strategy = "evolutionary"
    cost_model: CostModel = "xgb"
    batch: int = 16
    population: int = 64
    early_stopping: int | None = None
    seed: int = 0
    deadline_s: float | None = None
    warm_start: bool = True


class TuneRequest(Strict):
    """One kernel's search on one target."""

    target_name: str
    target: TargetConfig = TargetConfig()
    device_name: str = "local"
    device: DeviceConfig = DeviceConfig()
    search: SearchOptions = SearchOptions()
    measure: TrialMeasurement = TrialMeasurement()
    store: str | None = None
    shared: str | None = None
    cpu: str | None = None
    """Identity of the measuring machine's CPU, for targets that depend on it."""


class ChooseLayoutRequest(Strict):
    """Which layouts of a variant are compared, and how."""

    layouts: list[Layout]
    """In the order of the candidates' files."""
    trials: Positive
    """Candidates to measure for each kernel that is looked at."""
    extract: ExtractRequest
    tune: TuneRequest


class PickBestRequest(Strict):
    """Which records a build may use."""

    target_name: str
    target: TargetConfig = TargetConfig()
    device_name: str = "local"
    device: DeviceConfig = DeviceConfig()
    store: str | None = None
    untuned: list[str] = Field(default_factory=list)
    """Names of kernels that get no record."""
    cpu: str | None = None


class CoverageRequest(Strict):
    """What a build demands of its records."""

    require_coverage: Share | None = None
