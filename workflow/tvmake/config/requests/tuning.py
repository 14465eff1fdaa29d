"""Options of the stages that tune: choose_layout, extract, budget, tune, pick_best."""

from pydantic import Field

from tvmake.artifact.dims import Shapes
from tvmake.codegen.options import PassOptions
from tvmake.config.device import OnDevice
from tvmake.config.tuning import CostModel, TrialMeasurement
from tvmake.options import Positive, Strict
from tvmake.targets.options import TargetOptions
from tvmake.transform.options import Layout, UserPass


class ExtractRequest(PassOptions):
    """Kernels of a variant."""

    target_name: str
    target: TargetOptions = TargetOptions()
    passes: list[UserPass] = Field(default_factory=list)
    """User passes of the build that run before fusion, or on the fused module."""
    shapes: Shapes = Field(default_factory=list)
    """Sizes of dynamic dimensions for which the package has functions of their own."""
    separate_states: list[str] = Field(default_factory=list, exclude_if=lambda names: not names)
    """Names of states that each function has for itself."""
    cpu: str | None = None
    """Identity of the compiling machine's CPU, for targets that depend on it."""


class ModelBudget(Strict):
    """Trial budget of one variant."""

    trials: int
    trials_per_kernel: int | None = None
    floor: int = 16
    kernels: list[str] = Field(default_factory=list)
    """Patterns of the kernels to tune; all if empty."""


class BudgetRequest(Strict):
    """Distribution of the trials of all variants of a target over their kernels."""

    target_name: str
    number: Positive
    """Number of the round, from 1."""
    rounds: Positive
    variants: dict[str, ModelBudget]
    """By ``model/precision``."""


class SearchOptions(Strict):
    """Selection of candidates; see :class:`tvmake.config.tuning.TuningOptions`."""

    cost_model: CostModel = "xgb"
    batch: int = 16
    population: int = 64
    early_stopping: int | None = None
    seed: int = 0
    deadline_s: float | None = None
    warm_start: bool = True


class TuneRequest(OnDevice):
    """Search for one kernel on one target."""

    target_name: str
    target: TargetOptions = TargetOptions()
    search: SearchOptions = SearchOptions()
    finalists: int = 0
    """Candidates to compare at the end; 0 except in the last round."""
    measure: TrialMeasurement = TrialMeasurement()
    store: str | None = None
    shared: str | None = None
    cpu: str | None = None
    """Identity of the measuring machine's CPU, for targets that depend on it."""


class ChooseLayoutRequest(Strict):
    """Comparison of a variant's layouts."""

    layouts: list[Layout]
    """The layouts, in the order of the candidates' files."""
    trials: Positive
    """Candidates to measure for each compared kernel."""
    extract: ExtractRequest
    tune: TuneRequest


class PickBestRequest(OnDevice):
    """Records that a build may use."""

    target_name: str
    target: TargetOptions = TargetOptions()
    store: str | None = None
    untuned: list[str] = Field(default_factory=list)
    """Names of kernels without a record."""
    cpu: str | None = None
