"""The complete config: axes, stage options, and checks across them."""

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BeforeValidator, Discriminator, Field, Tag, ValidationInfo, field_validator, model_validator
from pydantic.json_schema import SkipJsonSchema

from tvmake.artifact.dims import DimBounds, Dims, Shapes, spell_shape
from tvmake.artifact.functions import MOST_FUNCTIONS, FunctionName
from tvmake.codegen.options import BuildOptions
from tvmake.config.base import LocalPath, LogsPath, Name, ResultsPath
from tvmake.config.benchmark import BenchmarkOptions
from tvmake.config.cache import Cache
from tvmake.config.dataset import DatasetConfig
from tvmake.config.device import DeviceConfig, LocalDeviceConfig
from tvmake.config.export import ExportOptions
from tvmake.config.target import TargetConfig, obstacle
from tvmake.config.tuning import ModelTuning, TuningOptions
from tvmake.config.validation import PrecisionGoals, ValidationOptions, goals_for
from tvmake.config.variants import LEAVE_OUT, Combination, VariantFilter
from tvmake.frontend.file_kinds import format_remedy
from tvmake.frontend.options import ImportOptions
from tvmake.options import Strict
from tvmake.quantize.precision import BasePrecision, PrecisionConfig
from tvmake.transform.options import TransformOptions

LONGEST_NAME = 80
"""Maximum number of letters in the name of a function with its model's."""

RESERVED_MODEL_NAMES = frozenset({"best", "diff", "history", "sources", "tuning"})

AXES = ("models", "precisions", "targets")
"""The keys whose entries are combined to variants."""

FORMER_NAMES = "former_names"
"""Key of the validation context: for each axis, the names that an earlier file gives and a later one may remove. Excluding
them has no effect, and is not a mistake."""

Names = Annotated[list[Name], Field(min_length=1)]

Options = TypeVar("Options", bound=Strict)


def _named_precisions(value: Any) -> Any:
    if isinstance(value, list):
        return {name: {"base": name} for name in _names(value)}
    if isinstance(value, dict):
        # `float16: {}` means the precision of that name.
        bases = get_args(BasePrecision)
        return {
            name: {"base": name, **(entry or {})} if name in bases and isinstance(entry, dict | None) else entry
            for name, entry in value.items()
        }
    return value


def _named_targets(value: Any) -> Any:
    """Expand ``targets: [llvm, adreno-730-texture]``, a list of kinds and catalogue names."""
    if isinstance(value, dict) and isinstance(value.get("kind"), str):
        kind = value["kind"]
        raise ValueError(f"kind is a key of a target, not its name; write targets: {{NAME: {{kind: {kind}}}}}")
    return {name: name for name in _names(value)} if isinstance(value, list) else value


def _names(values: list[Any]) -> list[str]:
    for value in values:
        if isinstance(value, dict | list):
            raise ValueError("a list can only have names; write a mapping of names to details instead")
        if not isinstance(value, str):
            raise ValueError(f"a list can only have names, and {value} is not a string; put names in quotation marks")
    return values


class ModelConfig(ImportOptions):
    """One model: its source, inputs and goals, and its overrides of the general options."""

    source: LocalPath
    """A path (.onnx, .pt2, .pt, .tflite, .keras, .h5, .mlir, .mlirbc), ``package.module:function`` returning an nn.Module (or, with
    ``format: relax``, a Relax module), or ``zoo:<name>``."""
    files: list[LocalPath] = Field(default_factory=list)
    """Further files that the source reads (ONNX external data other than <source>.data)."""
    dims: Dims = Field(default_factory=dict)
    """Sizes of dynamic dimensions, by name, for a static package; or bounds of dimensions that remain dynamic:
    ``{min: 1, max: 512}``."""
    shapes: Shapes = Field(default_factory=list)
    """Sizes of dynamic dimensions for which packages have functions of their own, over the same weights: ``[{batch: 1},
    {batch: 8}]``. A call takes the function that its inputs' sizes fit; for other sizes the code is dynamic. On targets that
    need fixed sizes, other batches are padded or split, and other lengths are refused."""
    dataset: DatasetConfig | None = None
    """Real inputs for validation; seeded random inputs by default."""
    goals: PrecisionGoals | None = None
    """Goals of every package of this model; they override ``validation.goals``."""
    precisions: Names | None = None
    """The precisions to make; all by default."""
    targets: Names | None = None
    """The targets to make; all by default."""
    transform: TransformOptions | None = None
    """Overrides of the general ``transform``, key by key."""
    tuning: ModelTuning | None = None
    """Overrides of the general ``tuning``, key by key."""
    build: BuildOptions | None = None
    """Overrides of the general ``build``, key by key."""
    export: ExportOptions | None = None
    """Overrides of the general ``export``, key by key."""
    validation: ValidationOptions | None = None
    """Overrides of the general ``validation``, key by key."""
    benchmark: BenchmarkOptions | None = None
    """Overrides of the general ``benchmark``, key by key."""

    @field_validator("shapes")
    @classmethod
    def _has_free_dimensions(cls, shapes: list[dict[str, int]], info: ValidationInfo) -> list[dict[str, int]]:
        if contradiction := _contradiction(shapes, info.data.get("dims", {})):
            raise ValueError(contradiction)
        return shapes

    def import_options(self) -> ImportOptions:
        """Return only the options that the import stage reads."""
        names = ImportOptions.model_fields
        # All values, because looking up their defaults takes pydantic most of the time.
        return ImportOptions.model_construct(
            self.model_fields_set & names.keys(), **{name: getattr(self, name) for name in names}
        )


class FunctionsConfig(ModelConfig):
    """A model whose packages have several functions, each a network with a source of its own, over one set of weights.

    The first function chooses the layout of weights: name the one that runs most often first. The other keys are those of a model, but for
    ``source``, and hold for every function that does not have its own.
    """

    source: SkipJsonSchema[Literal[""]] = ""
    functions: dict[FunctionName, ModelConfig] = Field(min_length=1, max_length=MOST_FUNCTIONS)
    """Instead of ``source``: the functions of the packages, each a network with the keys of a model, ``{encode: {source: encoder.onnx}, decode:
    {source: decoder.onnx}}``. Keys beside ``functions`` hold for all of them. The first one chooses the layout of the weights that they share:
    name the one that runs most often first."""
    links: dict[FunctionName, dict[str, str]] = Field(default_factory=dict)
    """Outputs of functions that others take as an input or a state, in one session: ``{encode: {present.%d.encoder.key:
    past_key_values.%d.encoder.key}}``. ``%d`` matches a number."""
    separate_states: list[str] = Field(default_factory=list)
    """Names of states that functions do not share, though they have them in the same type and shape: ``[h, c]``."""

    @model_validator(mode="before")
    @classmethod
    def _has_no_source(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("source"):
            raise ValueError("has a `source` beside `functions`; move it into one of the functions")
        return value

    @model_validator(mode="after")
    def _format_fits(self) -> "FunctionsConfig":
        """The format is that of the functions' sources."""
        return self

    @model_validator(mode="after")
    def _links_functions(self) -> "FunctionsConfig":
        for name in self.links:
            if name not in self.functions:
                raise ValueError(f"`links` names '{name}'; the functions are {', '.join(self.functions)}")
        return self

    @model_validator(mode="after")
    def _fit_together(self) -> "FunctionsConfig":
        for name, function in self.functions.items():
            merged = self.function(function)
            if contradiction := _contradiction(merged.shapes, merged.dims):
                raise ValueError(f"in the function {name}, {contradiction}")
        return self

    def function(self, own: ModelConfig) -> ModelConfig:
        """A function's config: its own keys, and those beside ``functions``."""
        shared = {}
        for key in (self.model_fields_set & ModelConfig.model_fields.keys()) - {"source"}:
            general, specific = getattr(self, key), getattr(own, key)
            if key not in own.model_fields_set:
                shared[key] = general
            elif isinstance(general, Strict) and isinstance(specific, Strict):
                shared[key] = override(general, specific)
            elif isinstance(general, dict) and isinstance(specific, dict):
                shared[key] = {**general, **specific}
        return own.model_copy(update=shared)


def _model_kind(value: Any) -> str:
    has_functions = "functions" in value if isinstance(value, Mapping) else isinstance(value, FunctionsConfig)
    return "several networks" if has_functions else "one network"


Model = Annotated[
    Annotated[ModelConfig, Tag("one network")] | Annotated[FunctionsConfig, Tag("several networks")],
    Discriminator(_model_kind),
]


class Config(Strict):
    """A tvmake config: models × precisions × targets, and the options of all stages."""

    title: str | None = Field(default=None, max_length=200)
    """Heading of the results page; the project directory's name by default."""
    models: dict[Name, Model]
    """The models, by the name of their results."""
    targets: Annotated[dict[Name, TargetConfig], BeforeValidator(_named_targets)] = Field(
        default={"cpu": TargetConfig(kind="llvm", mcpu="native")}, validate_default=False
    )
    """The targets, by the name of their results; this machine's CPU by default."""
    precisions: Annotated[dict[Name, PrecisionConfig], BeforeValidator(_named_precisions)] = Field(
        default={"float32": PrecisionConfig()}, validate_default=False
    )
    """A list of ``float32``, ``tf32``, ``float16``, ``float16_acc32``, ``int8``, ``int8_weights``, ``int4_weights``, ``auto``, or a mapping of names to details."""
    devices: dict[Name, DeviceConfig] = Field(default_factory=dict)
    """Devices that targets refer to."""
    variants: VariantFilter = VariantFilter()
    """The combinations to make."""
    transform: TransformOptions = TransformOptions()
    """Graph rewrites for every model."""
    tuning: TuningOptions = TuningOptions()
    """Tuning of kernels; off unless ``trials`` is set."""
    build: BuildOptions = BuildOptions()
    """Build options for every variant."""
    export: ExportOptions = ExportOptions()
    """Optional contents of packages."""
    validation: ValidationOptions = ValidationOptions()
    """Numerical checks."""
    benchmark: BenchmarkOptions = BenchmarkOptions()
    """Measurement of latency."""
    cache: Cache = None
    """Store that shares results between checkouts and people; none by default. Changing it reruns nothing."""
    results: ResultsPath = "results"
    """Directory of all results: relative to the project, or absolute."""
    logs: LogsPath = "logs"
    """Directory of the jobs' logs. Two configs in one workflow need one each. Changing it reruns nothing."""

    @model_validator(mode="before")
    @classmethod
    def _has_models(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        problems = []
        if value.get("models") in ({}, None) and "models" in value:
            problems.append("models: none is given; name at least one (`tvmake init MODEL` writes a starter config)")
        for axis in ("targets", "precisions"):
            if axis in value and value[axis] in ({}, []):
                problems.append(f"{axis}: none is given; name at least one, or leave the key out for the default")
        if problems:
            raise ValueError("\n".join(problems))
        return value

    @model_validator(mode="after")
    def _check_references(self, info: ValidationInfo) -> "Config":
        former: Mapping[str, Collection[str]] = (info.context or {}).get(FORMER_NAMES, {})
        problems: list[str] = []
        for name in self.models:
            if name.lower() in RESERVED_MODEL_NAMES:
                problems.append(f"models.{name}: the name is used by results/{name.lower()}; choose another one")
            for function in self.functions(name).values():
                if function in self.models:
                    remedy = "choose another name for one of them"
                    problems.append(f"models.{function}: {self.key_of(function)} has the same name; {remedy}")
                if len(function) > LONGEST_NAME:
                    problem = f"the name with its model's has more than {LONGEST_NAME} letters"
                    problems.append(f"{self.key_of(function)}: {problem}; choose a shorter one")
        for name, model in self.networks.items():
            where = self.key_of(name)
            if model.source_format() is None:
                remedy = format_remedy(model.source)
                problems.append(f"{where}.source: cannot tell the format of '{model.source}': {remedy}")
            if model.arguments and (kind := model.source_format()) not in (None, "factory", "relax", "zoo"):
                problem = f"are for functions and networks of the zoo, and the source is {kind}; leave them out"
                problems.append(f"{where}.arguments: {problem}")
            test = override(self.export, model.export).test
            has_no_dataset = model.export is not None or not any(entry.dataset for entry in self.networks.values())
            if test is not None and test.inputs == "dataset" and model.dataset is None and has_no_dataset:
                key = "export" if model.export is None else f"{where}.export"
                remedy = "give the model one (`dataset`), or write inputs: random"
                problems.append(f"{key}.self_test: takes inputs from a dataset, and no dataset is set; {remedy}")
            goals = (override(self.validation, model.validation).goals, model.goals)
            has_baseline = override(self.benchmark, model.benchmark).baseline
            if not has_baseline and any(goals_for(entry.base, *goals).speedup for entry in self.precisions.values()):
                key = "benchmark" if model.benchmark is None else f"{where}.benchmark"
                remedy = f"remove the goal `speedup` of {where}, or measure the baseline"
                problems.append(f"{key}.baseline: the goal `speedup` needs the baseline, which is off; {remedy}")
            for axis in ("precisions", "targets"):
                for chosen in getattr(model, axis) or ():
                    problems += _unknown_names(f"{where}.{axis}", chosen, getattr(self, axis))
        for name, target in self.targets.items():
            if target.device is not None and target.device != "local":
                problems += _unknown_names(f"targets.{name}.device", target.device, self.devices)
            if target.tuning is not None and target.tuning.is_wanted and target.runs_on is None:
                problems.append(f"targets.{name}.tuning: candidates are timed on a device; give the target one")
        for list_name in ("include", "exclude"):
            for index, combination in enumerate(getattr(self.variants, list_name)):
                for part, axis in (("model", "models"), ("precision", "precisions"), ("target", "targets")):
                    if chosen := getattr(combination, part):
                        if list_name == "exclude" and chosen in former.get(axis, ()):
                            continue
                        known = {**self.models, **self.networks} if axis == "models" else getattr(self, axis)
                        problems += _unknown_names(f"variants.{list_name}[{index}].{part}", chosen, known)
                    elif list_name == "include":
                        problems.append(f"variants.include[{index}]: names no {part}")
        if not problems:
            problems += self._impossible()
        if not problems and not self.variants.include and not any(self._combinations()):
            problems.append("variants.exclude: excludes all combinations; exclude fewer")
        if problems:
            raise ValueError("\n".join(dict.fromkeys(problems)))
        return self

    def _impossible(self) -> list[str]:
        """Report impossible combinations: unsupported arithmetic, or a choice by measuring without a device."""
        problems: dict[str, None] = {}
        for _, precision, target in self.combinations():
            config = self.precisions[precision]
            for arithmetic in (config.among or ()) if config.is_chosen else (config.arithmetic,):
                if reason := obstacle(self.targets[target], arithmetic):
                    remedy = f"remove {arithmetic} from precisions.{precision}.among, or " if config.is_chosen else ""
                    problems[f"targets.{target}: precision '{precision}': {reason}; {remedy}{LEAVE_OUT}"] = None
            if config.is_chosen and self.targets[target].runs_on is None:
                problems[
                    f"targets.{target}: precision '{precision}' is chosen by measuring, and the target has no device; "
                    f"give it one (`device:`), or {LEAVE_OUT}"
                ] = None
        return list(problems)

    def _combinations(self) -> Iterator[tuple[str, str, str]]:
        """Yield model, precision and target of all combinations of the axes except ``exclude``."""
        for name, model in self.networks.items():
            for precision in model.precisions or self.precisions:
                for target in model.targets or self.targets:
                    if not any(self.matches(part, name, precision, target) for part in self.variants.exclude):
                        yield name, precision, target

    def combinations(self) -> tuple[tuple[str, str, str], ...]:
        """Return model, precision and target of every variant, in config order."""
        included = [
            (name, str(part.precision), str(part.target))
            for part in self.variants.include
            for name in self.functions(str(part.model)).values() or (str(part.model),)
        ]
        return tuple(dict.fromkeys([*self._combinations(), *included]))

    @cached_property
    def networks(self) -> Mapping[str, ModelConfig]:
        """The networks by the name of their results: models, and functions as ``model.function``."""
        networks: dict[str, ModelConfig] = {}
        for name, model in self.models.items():
            if isinstance(model, FunctionsConfig):
                networks |= {f"{name}.{function}": model.function(own) for function, own in model.functions.items()}
            else:
                networks[name] = model
        return networks

    def functions(self, model: str) -> dict[str, str]:
        """The networks of a model's functions, by the functions' names; empty for a model without functions."""
        entry = self.models.get(model)
        return {name: f"{model}.{name}" for name in entry.functions} if isinstance(entry, FunctionsConfig) else {}

    def group_of(self, network: str) -> str:
        """The model that has a network as a function; empty if none has."""
        return self._groups.get(network, "")

    @cached_property
    def _groups(self) -> Mapping[str, str]:
        return {network: model for model in self.models for network in self.functions(model).values()}

    def key_of(self, network: str) -> str:
        """The key of a network: ``models.NAME``, or ``models.NAME.functions.FUNCTION``."""
        group = self.group_of(network)
        return f"models.{group}.functions.{network.removeprefix(f'{group}.')}" if group else f"models.{network}"

    def matches(self, part: Combination, network: str, precision: str, target: str) -> bool:
        """Whether a combination names a variant: its network, or the model that has it as a function."""
        names = dict.fromkeys((network, self.group_of(network) or network))
        return any(part.matches(name, precision, target) for name in names)

    def device(self, name: str) -> DeviceConfig:
        """Return a device by name; ``local`` needs no entry."""
        return self.devices.get(name, LocalDeviceConfig())


def override(general: Options, specific: Options | None) -> Options:
    """Return ``general`` with the keys that ``specific`` sets explicitly."""
    if specific is None:
        return general
    return general.model_copy(update={name: getattr(specific, name) for name in specific.model_fields_set})


def _contradiction(shapes: Shapes, dims: Dims) -> str:
    """How shapes contradict sizes and bounds of the same dimensions, and what to do; empty if they do not."""
    for shape in shapes:
        for name, size in shape.items():
            if isinstance(dims.get(name), int):
                return f"{spell_shape(shape)} gives {name} a size that `dims: {{{name}: {dims[name]}}}` fixes; leave it out of one"
            if isinstance(bounds := dims.get(name), DimBounds) and not bounds.has(size):
                ends = spell_shape(bounds.model_dump(exclude_none=True))
                return f"{spell_shape(shape)} is not within `dims: {{{name}: {ends}}}`; choose a size within it, or other bounds"
    return ""


def _unknown_names(where: str, name: str, known: dict[str, Any]) -> list[str]:
    if name in known:
        return []
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1)
    axis = where.rpartition(".")[2]
    if axis == "device" and not known:
        return [f"{where}: no '{name}'; the config has no `devices`: add {name} there, or leave `device` out"]
    hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(known) or 'none'}"
    bases = get_args(BasePrecision)
    if axis == "precisions" and name not in bases:
        hint += f" tvmake's own are {', '.join(bases)}" if close else f"; tvmake's own are {', '.join(bases)}"
    elif axis == "precisions" or (axis == "targets" and not close):
        hint += f" Or add {name} to `{axis}`" if close else f"; or add {name} to `{axis}`"
    return [f"{where}: no '{name}'; {hint}"]
