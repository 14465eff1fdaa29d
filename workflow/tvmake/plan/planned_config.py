"""The config as the stages' jobs see it: the variants, what the config holds for each, and where their files lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from tvmake.artifact.tasks import KernelBudget
from tvmake.codegen.options import BuildOptions
from tvmake.config.benchmark import BenchmarkOptions
from tvmake.config.export import ExportOptions
from tvmake.config.root import Config, ModelConfig
from tvmake.config.tuning import TuningOptions
from tvmake.config.validation import Goals, ValidationOptions, goals_for
from tvmake.frontend.options import ImportOptions
from tvmake.plan import sources
from tvmake.plan.budgets import Budgets, Round
from tvmake.plan.options import ModelOptions, TargetOptions
from tvmake.quantize.precision import PrecisionConfig
from tvmake.stages import registry
from tvmake.stages.descriptor import WILDCARDS, Stage
from tvmake.transform.options import Layout, TransformOptions, UserPass

CHOSEN = {file: f"chosen/{file}" for file in ("module.json", "module.params", "signature.json")}
ASSIGNED = {file: f"assigned/{file}" for file in CHOSEN}
OF_PRECISION = {
    "module.json": "module.json", "module.params": "module.params", "signature.json": "transformed/signature.json",
}  # fmt: skip


@dataclass(frozen=True, order=True)
class Variant:
    """model × precision × target."""

    model: str
    precision: str
    target: str

    def __str__(self) -> str:
        return f"{self.model}/{self.precision}/{self.target}"


class PlannedConfig:
    """A config in the terms of its jobs. Made for one run: what has been worked out from the config is kept."""

    def __init__(self, config: Config):
        self.config = config
        self.budgets = Budgets()
        self._models: dict[str, ModelOptions] = {}
        self._targets: dict[str, TargetOptions] = {}
        self._contexts: dict[str, tuple[PlannedJob, ...]] = {}
        self._tuned: dict[tuple[str, str], bool] = {}

    @cached_property
    def variants(self) -> tuple[Variant, ...]:
        """Every combination to make, in config order."""
        return tuple(Variant(*combination) for combination in self.config.combinations())

    @cached_property
    def runnable(self) -> tuple[Variant, ...]:
        """The variants whose target has a device; the others end with their package."""
        return tuple(variant for variant in self.variants if self.device_of(variant.target))

    def device_of(self, target: str) -> str | None:
        """The device that packages of a target run on."""
        return self.target(target).device_name

    def is_tuned(self, variant: Any) -> bool:
        """Whether a variant's kernels are tuned: trials are wanted, and there is a device to measure them on."""
        key = (variant.target, variant.model)
        if key not in self._tuned:
            self._tuned[key] = self.tuning(*key).is_wanted and self.device_of(variant.target) is not None
        return self._tuned[key]

    def chooses_layout(self, variant: Any) -> bool:
        """Whether a variant's data layout is chosen by measuring: it is ``auto``, its kernels are tuned, and its precision is not
        chosen, too."""
        is_auto = self.model(variant.model).transform.layout == "auto" and self.is_tuned(variant)
        return is_auto and not self.chooses_precision(variant)

    def chooses_precision(self, variant: Any) -> bool:
        """Whether the precision of each layer of a variant is chosen by measuring."""
        return self.config.precisions[variant.precision].is_chosen

    def layout_of(self, variant: Any) -> Layout | Literal["auto"]:
        """The data layout that a variant asks for; ``auto`` only where it is chosen by measuring."""
        layout = self.model(variant.model).transform.layout
        return "keep" if layout == "auto" and not self.chooses_layout(variant) else layout

    # --- options --------------------------------------------------------------------------------------------------

    def model(self, name: str) -> ModelOptions:
        """What the config holds for a model."""
        if name not in self._models:
            self._models[name] = ModelOptions(self.config, name)
        return self._models[name]

    def target(self, name: str) -> TargetOptions:
        """What the config holds for a target."""
        if name not in self._targets:
            self._targets[name] = TargetOptions(self.config, name)
        return self._targets[name]

    def tuning(self, target: str, model: str | None = None) -> TuningOptions:
        """The tuning options of a target, or of one of its models."""
        options = self.target(target)
        return options.tuning_of(model) if model else options.tuning

    def rounds(self, target: str) -> int:
        """The number of rounds in which the target's trials are spent; 0 where a lock gives the records."""
        return self.target(target).rounds

    def rounds_of(self, target: str) -> tuple[Round | None, ...]:
        """What each round of a target's tuning plans; None for one whose budget is not there."""
        return tuple(
            self.budgets.known(self.file("budget.json", target=target, number=number))
            for number in range(1, self.rounds(target) + 1)
        )

    def frozen(self, variant: Any) -> list[str]:
        """The lock that says which records and layout a variant has, if there is one."""
        lock = self.tuning(variant.target).frozen
        return [lock] if lock else []

    def context(self, wildcards: Any = None) -> PlannedJob:
        """What a stage sees of the config, for a mapping of wildcards, or an object that has them
        as attributes, such as a variant."""
        if isinstance(wildcards, PlannedJob):
            return wildcards
        if isinstance(wildcards, Mapping):
            return PlannedJob(self, **wildcards)
        return PlannedJob(self, **{name: str(getattr(wildcards, name, "")) for name in WILDCARDS})

    def contexts(self, target: str = "") -> Sequence[PlannedJob]:
        """The contexts of all variants, or of those of a target."""
        if target not in self._contexts:
            self._contexts[target] = tuple(
                self.context(variant) for variant in self.variants if target in ("", variant.target)
            )
        return self._contexts[target]

    # --- files ----------------------------------------------------------------------------------------------------

    def path(self, artifact: str) -> str:
        """A file's path with Snakemake wildcards."""
        return registry.pattern(artifact, self.config.results)

    def file(self, artifact: str, variant: Variant | None = None, /, **wildcards: str | int) -> str:
        """A file's path for one variant, or for other wildcards, or for the run."""
        return registry.path(artifact, self.config.results, **(vars(variant) if variant else {}), **wildcards)


class PlannedJob:
    """A job of a stage, as the stage sees it (a :class:`tvmake.stages.descriptor.JobContext`)."""

    __slots__ = ("_plan", "layout", "model", "number", "precision", "target", "workload")

    def __init__(
        self,
        plan: PlannedConfig,
        model: str = "",
        precision: str = "",
        target: str = "",
        number: str = "",
        layout: str = "",
        workload: str = "",
    ):
        self._plan = plan
        self.model = model
        self.precision = precision
        self.target = target
        self.number = number
        self.layout = layout
        self.workload = workload

    @property
    def wildcards(self) -> dict[str, str]:
        """The wildcards that the job has."""
        return {name: value for name in WILDCARDS if (value := getattr(self, name))}

    def with_wildcards(self, **wildcards: str) -> PlannedJob:
        """The job with further wildcards."""
        return PlannedJob(self._plan, **{**self.wildcards, **wildcards})

    def of(self, stage: Stage) -> PlannedJob:
        """The job without the wildcards that a stage does not have."""
        return PlannedJob(self._plan, **{name: getattr(self, name) for kind in stage.kinds for name in kind.wildcards})

    @property
    def config(self) -> Config:
        """The whole config."""
        return self._plan.config

    @property
    def model_config(self) -> ModelConfig:
        """The model's section of the config."""
        return self._plan.model(self.model).config

    @property
    def import_options(self) -> ImportOptions:
        """What the import stage reads of the model."""
        return self._plan.model(self.model).import_options

    @property
    def precision_config(self) -> PrecisionConfig:
        """The precision's section of the config."""
        return self._plan.config.precisions[self.precision]

    @property
    def transform(self) -> TransformOptions:
        """The model's graph rewrites."""
        return self._plan.model(self.model).transform

    @property
    def build(self) -> BuildOptions:
        """The model's build options."""
        return self._plan.model(self.model).build

    @property
    def export(self) -> ExportOptions:
        """What goes into the model's packages."""
        return self._plan.model(self.model).export

    @property
    def validation(self) -> ValidationOptions:
        """How the model's numerics are checked."""
        return self._plan.model(self.model).validation

    @property
    def goals(self) -> Goals:
        """What the variant must reach, defaults applied."""
        return goals_for(self.precision_config.base, self.validation.goals, self.model_config.goals)

    @property
    def quantized_goals(self) -> Goals | None:
        """The same where the source turns out to be quantised; None where they are no others."""
        levels = (self.validation.goals, self.model_config.goals)
        goals = goals_for(self.precision_config.base, *levels, is_quantized=True)
        return None if goals == self.goals else goals

    @property
    def benchmark(self) -> BenchmarkOptions:
        """How the model's packages are timed."""
        return self._plan.model(self.model).benchmark

    @property
    def tuning(self) -> TuningOptions:
        """The tuning options of the target, or of the model on it."""
        return self._plan.tuning(self.target, self.model or None)

    @property
    def target_fields(self) -> dict[str, Any]:
        """What code for the target depends on."""
        return self._plan.target(self.target).target_fields

    @property
    def device_fields(self) -> dict[str, Any]:
        """Where the target's packages run."""
        return self._plan.target(self.target).device_fields

    @property
    def device_name(self) -> str | None:
        """The target's device; None for a target without one."""
        return self._plan.target(self.target).device_name

    @property
    def is_tuned(self) -> bool:
        """Whether the variant's kernels are tuned."""
        return self._plan.is_tuned(self)

    @property
    def chooses_layout(self) -> bool:
        """Whether the variant's data layout is chosen by measuring."""
        return self._plan.chooses_layout(self)

    @property
    def chooses_precision(self) -> bool:
        """Whether the precision of each of the variant's layers is chosen by measuring."""
        return self._plan.chooses_precision(self)

    @property
    def layout_choice(self) -> Layout | Literal["auto"]:
        """The data layout that the variant asks for; ``auto`` where it is chosen by measuring."""
        return self._plan.layout_of(self)

    @property
    def rounds(self) -> int:
        """The target's rounds of tuning."""
        return self._plan.target(self.target).rounds

    @property
    def variants(self) -> Sequence[PlannedJob]:
        """All variants, or those of the job's target if it has one."""
        return self._plan.contexts(self.target)

    @property
    def trials(self) -> int:
        """Candidates that the budget gives the job's workload."""
        return self._kernel.trials

    @property
    def kernel_name(self) -> str:
        """What the budget calls the job's workload."""
        return self._kernel.name

    @property
    def _kernel(self) -> KernelBudget:
        return self._plan.budgets.kernels(self.file("budget.json"))[self.workload]

    @property
    def model_files(self) -> list[str]:
        """The model's files, as they are now."""
        return self._plan.model(self.model).files

    @property
    def dataset_files(self) -> list[str]:
        """The files of the model's dataset, as they are now."""
        return self._plan.model(self.model).dataset_files

    @property
    def lock_files(self) -> list[str]:
        """The lock that gives the target's records, if there is one."""
        return self._plan.frozen(self)

    def user_passes(self, points: Sequence[str]) -> list[UserPass]:
        """The model's user passes at these points of the pipeline."""
        return [user_pass for user_pass in self.transform.passes if user_pass.at in points]

    def pass_files(self, points: Sequence[str]) -> list[str]:
        """The Python files that those passes come from."""
        return sources.pass_files(self.user_passes(points))

    def file(self, artifact: str, **wildcards: str | int) -> str:
        """The path of an artifact with the job's wildcards."""
        return self._plan.file(artifact, **{**self.wildcards, **wildcards})

    def network_file(self, part: str) -> str:
        """``module.json``, ``module.params`` or ``signature.json`` of the network that the variant is built from."""
        if self.chooses_precision:
            return self.file(ASSIGNED[part])
        return self.file((CHOSEN if self.chooses_layout else OF_PRECISION)[part])

    def receipts(self, number: int, user: str | None = None) -> list[str]:
        """The receipts of a round, or of one variant's kernels in it; none while the round has no budget."""
        if number == 0 or (known := self._plan.budgets.known(self.file("budget.json", number=number))) is None:
            return []
        return [self.file("{workload}.json", number=number, workload=workload) for workload in known.workloads(user)]
