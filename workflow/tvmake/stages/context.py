"""A stage's view of the config: the options of one job, and the paths of its files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from tvmake.artifact.tasks import KernelBudget
from tvmake.codegen.options import BuildOptions
from tvmake.config import dataset_files
from tvmake.config.benchmark import BenchmarkOptions
from tvmake.config.device import DeviceConfig
from tvmake.config.export import ExportOptions
from tvmake.config.root import Config, FunctionsConfig, ModelConfig, override
from tvmake.config.target import TargetConfig
from tvmake.config.tuning import TuningOptions
from tvmake.config.validation import Goals, ValidationOptions, goals_for
from tvmake.errors import InputError
from tvmake.frontend.model_files import model_files, python_file
from tvmake.frontend.options import ImportOptions
from tvmake.quantize.precision import PrecisionConfig
from tvmake.stages.budgets import Budgets, Round
from tvmake.targets.cpu.identity import cpu_identity
from tvmake.transform.options import Layout, TransformOptions, UserPass

WILDCARDS = ("model", "group", "precision", "target", "number", "layout", "workload")
"""Wildcards that distinguish the jobs of a stage."""

CHOSEN = {file: f"chosen/{file}" for file in ("module.json", "module.params", "signature.json")}
ASSIGNED = {file: f"assigned/{file}" for file in CHOSEN}
OF_PRECISION = {
    "module.json": "module.json", "module.params": "module.params", "signature.json": "transformed/signature.json",
}  # fmt: skip

Value = TypeVar("Value")


class JobContext:
    """A job of a stage, and its part of the config.

    Missing wildcards are empty. Options are the general ones, overridden by those of the job's model and target.
    Computed values are cached and shared by the contexts that are derived from one.

    Args:
        config: the whole config.
        patterns: the path of each artifact, with wildcards.
    """

    __slots__ = ("_known", "budgets", "config", "patterns", "wildcards", *WILDCARDS)

    wildcards: Mapping[str, str]
    """The wildcards that the job has."""

    model: str
    group: str
    """The model that has the job's network as a function; empty if none has."""
    precision: str
    target: str
    number: str
    """The tuning round, from 1."""
    layout: str
    """The data layout of a candidate."""
    workload: str

    def __init__(self, config: Config, patterns: Mapping[str, str]):
        self.config = config
        self.patterns = patterns
        self.budgets = Budgets()
        self._known: dict[tuple[str, ...], Any] = {}
        self._set([""] * len(WILDCARDS))

    def _set(self, values: Sequence[str]) -> None:
        self.wildcards = {name: value for name, value in zip(WILDCARDS, values, strict=True) if value}
        for name, value in zip(WILDCARDS, values, strict=True):
            setattr(self, name, value)
        self.group = self.group or self.config.group_of(self.model)

    # --- wildcards ------------------------------------------------------------------------------------------------

    def at(self, wildcards: Any) -> JobContext:
        """The context of a job.

        Args:
            wildcards: wildcards by name, or an object with them as attributes, such as a variant.
        """
        if isinstance(wildcards, JobContext):
            return wildcards
        if isinstance(wildcards, Mapping):
            values = tuple(wildcards.get(name, "") for name in WILDCARDS)
        else:
            values = tuple(str(getattr(wildcards, name, "")) for name in WILDCARDS)
        return self._at(values)

    def _at(self, values: tuple[str, ...]) -> JobContext:
        return self.once(("context", *values), lambda: self._new(values))

    def _new(self, values: Sequence[str]) -> JobContext:
        context = JobContext.__new__(JobContext)
        context.config, context.patterns = self.config, self.patterns
        context.budgets, context._known = self.budgets, self._known
        context._set(values)
        return context

    def with_wildcards(self, **wildcards: str) -> JobContext:
        """The job with additional wildcards."""
        return self.at({**self.wildcards, **wildcards})

    def with_only(self, names: Iterable[str]) -> JobContext:
        """The job with only the named wildcards."""
        kept = frozenset(names)
        return self._at(tuple(getattr(self, name) if name in kept else "" for name in WILDCARDS))

    @property
    def variants(self) -> Sequence[JobContext]:
        """All variants, or those of the job's target if it has one, in config order."""
        return self.once(
            ("variants", self.target),
            lambda: tuple(
                self.at({"model": model, "precision": precision, "target": target})
                for model, precision, target in self.config.combinations()
                if self.target in ("", target)
            ),
        )

    @property
    def functions(self) -> Mapping[str, JobContext]:
        """The variants that become functions of one package with this one, itself included, by the functions' names.

        Empty if the network is not a function of a model, or the config leaves one of the variants out.
        """
        return self.once(("functions", self.group, self.precision, self.target), self._functions)

    def _functions(self) -> Mapping[str, JobContext]:
        there = {variant.model: variant for variant in self.variants if variant.precision == self.precision}
        functions = self.config.functions(self.group)
        return (
            {name: there[model] for name, model in functions.items()} if there.keys() >= {*functions.values()} else {}
        )

    @property
    def layout_owner(self) -> JobContext | None:
        """The variant whose layout of weights this one follows: that of the model's first function."""
        first = next(iter(self.functions.values()), None)
        return first if first is not None and first.model != self.model else None

    @property
    def separate_states(self) -> list[str]:
        """Names of states that each function of the model has for itself."""
        model = self.config.models.get(self.group)  # None for a network that is not a function
        return model.separate_states if isinstance(model, FunctionsConfig) else []

    # --- the model ------------------------------------------------------------------------------------------------

    @property
    def model_config(self) -> ModelConfig:
        """The model's section of the config."""
        return self.config.networks[self.model]

    @property
    def import_options(self) -> ImportOptions:
        """The options of the import stage."""
        return self.once(("import", self.model), self.model_config.import_options)

    @property
    def transform(self) -> TransformOptions:
        """The model's graph rewrites."""
        return self._of_model("transform", lambda: override(self.config.transform, self.model_config.transform))

    @property
    def build(self) -> BuildOptions:
        """The model's build options."""
        return self._of_model("build", lambda: override(self.config.build, self.model_config.build))

    @property
    def export(self) -> ExportOptions:
        """The options of the model's packages."""
        return self._of_model("export", lambda: override(self.config.export, self.model_config.export))

    @property
    def validation(self) -> ValidationOptions:
        """How the model's numerics are checked."""
        return self._of_model("validation", lambda: override(self.config.validation, self.model_config.validation))

    @property
    def benchmark(self) -> BenchmarkOptions:
        """How the model's packages are timed."""
        return self._of_model("benchmark", lambda: override(self.config.benchmark, self.model_config.benchmark))

    @property
    def model_files(self) -> list[str]:
        """The model's existing files."""
        return model_files(self.model_config)

    @property
    def dataset_files(self) -> list[str]:
        """The existing files of the model's dataset.

        Raises:
            InputError: the dataset is a list that cannot be read.
        """
        try:
            return dataset_files.dataset_files(self.model_config.dataset)
        except InputError as error:
            key = f"{self.config.key_of(self.model)}.dataset.path"
            raise InputError(key, f"{error.where}: {error.problem}", error.remedy) from None

    def user_passes(self, points: Sequence[str]) -> list[UserPass]:
        """The model's user passes at these points of the pipeline."""
        return [user_pass for user_pass in self.transform.passes if user_pass.at in points]

    def pass_files(self, points: Sequence[str]) -> list[str]:
        """The Python files of those passes."""
        return list(dict.fromkeys(python_file(user_pass.use) for user_pass in self.user_passes(points)))

    # --- the precision --------------------------------------------------------------------------------------------

    @property
    def precision_config(self) -> PrecisionConfig:
        """The precision's section of the config."""
        return self.config.precisions[self.precision]

    @property
    def chooses_precision(self) -> bool:
        """Whether the precision of each of the variant's layers is chosen by measuring."""
        return self.precision_config.is_chosen

    @property
    def goals(self) -> Goals:
        """The variant's goals, with defaults."""
        return self._goals(is_quantized=False)

    @property
    def quantized_goals(self) -> Goals | None:
        """The goals if the source is quantised; None if they are the same."""
        return self.once(("quantized goals", self.model, self.precision), self._quantized_goals)

    def _quantized_goals(self) -> Goals | None:
        goals = self._goals(is_quantized=True)
        return None if goals == self.goals else goals

    def _goals(self, is_quantized: bool) -> Goals:
        precision, levels = self.precision_config.base, (self.validation.goals, self.model_config.goals)
        key = ("goals", self.model, precision, str(is_quantized))
        return self.once(key, lambda: goals_for(precision, *levels, is_quantized=is_quantized))

    # --- the target -----------------------------------------------------------------------------------------------

    @property
    def target_config(self) -> TargetConfig:
        """The target's section of the config."""
        return self.config.targets[self.target]

    @property
    def target_fields(self) -> dict[str, Any]:
        """``target_name``, ``target`` and ``cpu``: the inputs of code generation, without the device and tuning."""
        return self.once(
            ("target fields", self.target),
            lambda: {
                "target_name": self.target,
                "target": self.target_config.options(),
                "cpu": cpu_identity() if self.target_config.is_native else None,
            },
        )

    @property
    def device_name(self) -> str | None:
        """The device that runs the target's packages; None for a target without one."""
        return self.target_config.runs_on

    @property
    def device(self) -> DeviceConfig:
        """That device, or this machine for a target without one."""
        return self.config.device(self.device_name or "local")

    @property
    def device_fields(self) -> dict[str, Any]:
        """``device_name`` and ``device``: the device that runs the target's packages."""
        return self.once(
            ("device fields", self.target),
            # The node of a device on a cluster does not affect results.
            lambda: {
                "device_name": self.device_name or "local",
                "device": self.device.model_copy(update={"gres": None}),
            },
        )

    # --- tuning ---------------------------------------------------------------------------------------------------

    @property
    def tuning(self) -> TuningOptions:
        """The tuning options of the target, overridden by the model's."""
        override = self.model_config.tuning if self.model else None
        if override is None:
            return self._target_tuning
        values = override.model_dump(exclude_none=True)
        return self.once(("tuning", self.target, self.model), lambda: self._target_tuning.model_copy(update=values))

    @property
    def _target_tuning(self) -> TuningOptions:
        return self.once(("tuning", self.target), lambda: override(self.config.tuning, self.target_config.tuning))

    @property
    def lock_files(self) -> list[str]:
        """The lock with the target's records, if there is one."""
        lock = self._target_tuning.frozen
        return [lock] if lock else []

    @property
    def rounds(self) -> int:
        """The number of tuning rounds of the target; 0 if a lock has the records."""
        return 0 if self.lock_files else self._target_tuning.rounds

    @property
    def is_tuned(self) -> bool:
        """Whether the variant's kernels are tuned: it has trials and a device to measure them on."""
        key = ("is tuned", self.target, self.model)
        return self.once(key, lambda: self.tuning.is_wanted and self.device_name is not None)

    @property
    def chooses_layout(self) -> bool:
        """Whether the variant's data layout is chosen by measuring: it is ``auto``, its kernels are tuned, and its precision is
        not chosen by measuring."""
        return self.transform.layout == "auto" and self.is_tuned and not self.chooses_precision

    @property
    def layout_choice(self) -> Layout | Literal["auto"]:
        """The variant's data layout; ``auto`` only if it is chosen by measuring."""
        layout = self.transform.layout
        return "keep" if layout == "auto" and not self.chooses_layout else layout

    @property
    def planned_rounds(self) -> tuple[Round | None, ...]:
        """The plan of each tuning round of the target; None if its budget does not exist."""
        return tuple(
            self.budgets.known(self.file("budget.json", number=number)) for number in range(1, self.rounds + 1)
        )

    @property
    def kernel(self) -> KernelBudget:
        """The budget of the job's workload."""
        return self.budgets.kernels(self.file("budget.json"))[self.workload]

    def receipts(self, number: int, user: str | None = None) -> list[str]:
        """The receipts of a tuning round, or of the kernels of one variant (``model/precision``) in it; none if the round
        has no budget."""
        if number == 0 or (known := self.budgets.known(self.file("budget.json", number=number))) is None:
            return []
        return [self.file("{workload}.json", number=number, workload=workload) for workload in known.workloads(user)]

    # --- files ----------------------------------------------------------------------------------------------------

    def file(self, artifact: str, **wildcards: str | int) -> str:
        """The path of an artifact with the job's wildcards."""
        known = {"group": self.group, **self.wildcards, **wildcards}
        return self.patterns[artifact].format(results=self.config.results, **known)

    def log(self, path: str) -> str:
        """The path of a log with the job's wildcards.

        Args:
            path: as in its stage's descriptor.
        """
        return f"{self.config.logs}/{path.format(**self.wildcards)}"

    def network_file(self, part: str) -> str:
        """``module.json``, ``module.params`` or ``signature.json`` of the network that the variant is built from."""
        if self.chooses_precision:
            return self.file(ASSIGNED[part])
        return self.file((CHOSEN if self.chooses_layout else OF_PRECISION)[part])

    # --- caching --------------------------------------------------------------------------------------------------

    def _of_model(self, section: str, make: Callable[[], Value]) -> Value:
        return self.once((section, self.model), make)

    def once(self, key: tuple[str, ...], make: Callable[[], Value]) -> Value:
        """A value that is computed once for all contexts of a config.

        Args:
            key: the value's name, and the wildcards that determine it.
            make: computes it.
        """
        if key not in self._known:
            self._known[key] = make()
        value: Value = self._known[key]
        return value
