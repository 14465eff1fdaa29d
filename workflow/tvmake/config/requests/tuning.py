"""Options of the stages that tune: choose_layout, extract, budget, tune, pick_best."""

from pydantic import Field

from tvmake.codegen.options import PassOptions
from tvmake.config.device import OnDevice
from tvmake.config.tuning import CostModel, Strategy, TrialMeasurement
from tvmake.options import Positive, Strict
from tvmake.targets.options import TargetOptions
from tvmake.transform.options import Layout, UserPass


class ExtractRequest(PassOptions):
    """Which kernels a variant consists of."""

    target_name: str
    target: TargetOptions = TargetOptions()
    passes: list[UserPass] = Field(default_factory=list)
    """The build's passes that run before kernels are fused, or on the fused module."""
    cpu: str | None = None
    """Identity of the compiling machine's CPU, for targets that depend on it."""


class ModelBudget(Strict):
    """What one variant may spend."""

    trials: int
    trials_per_kernel: int | None = None
    floor: int = 16
    kernels: list[str] = Field(default_factory=list)
    """Patterns of the kernels to tune; all where there is none."""


class BudgetRequest(Strict):
    """How the trials of all variants of a target are spread over their kernels."""

    target_name: str
    number: Positive
    """Which round this is, from 1."""
    rounds: Positive
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


class TuneRequest(OnDevice):
    """One kernel's search on one target."""

    target_name: str
    target: TargetOptions = TargetOptions()
    search: SearchOptions = SearchOptions()
    finalists: int = 0
    """Candidates to compare at the end; 0 in all rounds but the last."""
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


class PickBestRequest(OnDevice):
    """Which records a build may use."""

    target_name: str
    target: TargetOptions = TargetOptions()
    store: str | None = None
    untuned: list[str] = Field(default_factory=list)
    """Names of kernels that get no record."""
    cpu: str | None = None
