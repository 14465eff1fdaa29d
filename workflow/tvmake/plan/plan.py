"""The plan: what a config asks for, in the terms the workflow needs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import yaml

from tvmake.artifact.files import canonical_json, write_text
from tvmake.config.base import Strict
from tvmake.config.benchmark import Measurement
from tvmake.config.load import check
from tvmake.config.requests.building import BuildRequest
from tvmake.config.requests.referencing import ReferenceRequest
from tvmake.config.requests.reporting import ReportRequest, VariantRow
from tvmake.config.requests.running import BenchmarkRequest, DeployRequest, ValidateRequest
from tvmake.config.requests.transforming import TransformRequest
from tvmake.config.requests.tuning import (
    BudgetRequest,
    ChooseLayoutRequest,
    ExtractRequest,
    ModelBudget,
    PickBestRequest,
    SearchOptions,
    TuneRequest,
)
from tvmake.config.root import Config, ModelConfig, overridden
from tvmake.config.target import TargetConfig
from tvmake.config.transform import BUILD_POINTS, CANDIDATES, TRANSFORM_POINTS, TransformOptions, UserPass
from tvmake.config.tuning import TuningOptions
from tvmake.config.validation import goals_for
from tvmake.plan import layout, model_files, sources
from tvmake.plan.budgets import Budgets
from tvmake.plan.fingerprint import fingerprint
from tvmake.plan.formats import FRONTENDS, RUNTIMES
from tvmake.plan.machine import cpu_identity

STAGES = (
    "import",
    "reference",
    "transform",
    "choose_layout",
    "extract",
    "budget",
    "tune",
    "pick_best",
    "build",
    "export",
    "attest",
    "deploy",
    "validate",
    "benchmark",
    "report",
)
"""The stages, in the order data flows through them; each is a rule, a ``tvmake step`` command and a module."""

WILDCARDS = ("model", "precision", "target", "number", "layout")
"""What tells a stage's jobs apart."""

STAGE_MODULES = {stage: f"tvmake.stages.{'import_model' if stage == 'import' else stage}" for stage in STAGES}

LOCKED = "tvmake.stages.pick_locked"
"""What pick_best does where a lock says which records are used."""


@dataclass(frozen=True, order=True)
class Variant:
    """model × precision × target."""

    model: str
    precision: str
    target: str

    def __str__(self) -> str:
        return f"{self.model}/{self.precision}/{self.target}"


class Plan:
    """What a config asks for: variants, paths, stage options and fingerprints."""

    def __init__(self, config: Config):
        self.config = config
        self._options: dict[tuple[str, ...], str] = {}
        self._tuned: dict[tuple[str, str], bool] = {}
        self.budgets = Budgets()

    @classmethod
    def from_values(cls, values: Mapping[str, Any], files: Iterable[str] = ()) -> "Plan":
        """Build a plan from merged config values, as Snakemake holds them.

        Args:
            files: the config files the values came from, to name file and line in errors.

        Raises:
            InputError, ErrorList: the config is wrong.
        """
        from tvmake.config.load import KeyPath, Position, read_yaml

        positions: dict[KeyPath, Position] = {}
        names = [str(file) for file in files]
        for name in names:
            read_yaml(Path(name), positions)
        return cls(check(values, positions, default_file=names[-1] if names else "config"))

    # --- variants -------------------------------------------------------------------------------------------------

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
        return self.config.targets[target].runs_on

    # --- tuning ---------------------------------------------------------------------------------------------------

    def tuning(self, target: str, model: str | None = None) -> TuningOptions:
        """The tuning options of a target, or of one of its models."""
        options = overridden(self.config.tuning, self.config.targets[target].tuning)
        own = self.config.models[model].tuning if model else None
        return options.model_copy(update=own.model_dump(exclude_none=True)) if own else options

    def is_tuned(self, variant: Any) -> bool:
        """Whether a variant's kernels are tuned: trials are wanted, and there is a device to measure them on."""
        asked = (variant.target, variant.model)
        if asked not in self._tuned:
            self._tuned[asked] = self.tuning(*asked).is_wanted and self.device_of(variant.target) is not None
        return self._tuned[asked]

    def tuned_variants(self, target: str) -> tuple[Variant, ...]:
        """The variants of a target whose kernels are tuned."""
        return tuple(variant for variant in self.variants if variant.target == target and self.is_tuned(variant))

    def task_files(self, target: str) -> list[str]:
        """The kernels of each variant that is tuned for a target."""
        return [self.file("tasks", variant) for variant in self.tuned_variants(target)]

    def passes(self, target: str) -> int:
        """In how many portions the target's trials are spent; in none where a lock says which records are used."""
        options = self.tuning(target)
        return 0 if options.frozen else options.passes

    def frozen(self, variant: Any) -> list[str]:
        """The lock that says which records and layout a variant has, if there is one."""
        lock = self.tuning(variant.target).frozen
        return [lock] if lock else []

    # --- layout -------------------------------------------------------------------------------------------------------

    def chooses_layout(self, variant: Any) -> bool:
        """Whether a variant's data layout is chosen by measuring: it is ``auto``, and its kernels are tuned."""
        return self._transform(variant.model).layout == "auto" and self.is_tuned(variant)

    def layout_of(self, variant: Any) -> str:
        """The data layout that a variant asks for; ``auto`` only where it is chosen by measuring."""
        wanted = self._transform(variant.model).layout
        return "keep" if wanted == "auto" and not self.is_tuned(variant) else wanted

    def transformed(self, artifact: Literal["module", "params", "signature"], variant: Any) -> str:
        """A file of the network that a variant is made of: of its precision, or what it has chosen for itself."""
        of_precision: dict[str, layout.Artifact] = {"signature": "bound_signature"}
        of_variant: dict[str, layout.Artifact] = {
            "module": "chosen_module", "params": "chosen_params", "signature": "chosen_signature",
        }  # fmt: skip
        chosen = of_variant[artifact] if self.chooses_layout(variant) else of_precision.get(artifact, artifact)
        return self.file(chosen, Variant(variant.model, variant.precision, variant.target))

    def candidates(self, artifact: layout.Artifact, variant: Any) -> list[str]:
        """One file per layout that a variant chooses from."""
        return [
            self.file(artifact, model=variant.model, precision=variant.precision, layout=candidate)
            for candidate in CANDIDATES
        ]

    # --- paths ----------------------------------------------------------------------------------------------------

    def path(self, artifact: layout.Artifact) -> str:
        """A file's path with Snakemake wildcards."""
        return layout.pattern(artifact, self.config.results)

    def file(self, artifact: layout.Artifact, variant: Variant | None = None, **wildcards: str | int) -> str:
        """A file's path for one variant, or for other wildcards, or for the run."""
        return layout.path(artifact, self.config.results, **(vars(variant) if variant else {}), **wildcards)

    def goals(self) -> list[str]:
        """The files that a full run makes: the report, and what lies beside each package and no other stage reads."""
        return [self.file("summary"), self.file("summary_csv"), self.file("page"), *self.results_of("provenance")]

    def results_of(self, artifact: layout.Artifact) -> list[str]:
        """One file per variant that has it: numerics and latency need a device, records tuning, a layout ``auto``."""
        variants = self.runnable if artifact in ("receipt", "numerics", "latency") else self.variants
        if artifact == "best":
            variants = tuple(variant for variant in self.variants if self.is_tuned(variant))
        if artifact == "layout":
            variants = tuple(variant for variant in self.variants if self.chooses_layout(variant))
        return [self.file(artifact, variant) for variant in variants]

    def best_files(self, variant: Any) -> list[str]:
        """The records that a variant is built with: none unless it is tuned."""
        wanted = Variant(variant.model, variant.precision, variant.target)
        return [self.file("best", wanted)] if self.is_tuned(wanted) else []

    def model_files(self, model: str) -> list[str]:
        """What the import stage reads."""
        return model_files.model_files(self.config.models[model])

    def reference_files(self, model: str) -> list[str]:
        """What the reference stage reads besides the signature."""
        return self.model_files(model) + sources.dataset_files(self.config.models[model].dataset)

    def pass_files(self, stage: str, model: str) -> list[str]:
        """The Python files of the user passes a stage runs."""
        return sources.pass_files(self._passes(model, stage))

    def measurement(self, model: str) -> Measurement:
        """How a model's packages are timed."""
        return overridden(self.config.benchmark, self._model(model).benchmark).measurement()

    # --- options --------------------------------------------------------------------------------------------------

    def options(self, stage: str, wildcards: Any = None) -> str:
        """Canonical JSON of exactly what a stage reads of the config.

        Args:
            wildcards: an object or Variant with the attributes ``model``, ``precision``, ``target``, ``number``,
                ``layout`` that the stage has.
        """
        key = (stage, *(str(getattr(wildcards, part, "")) for part in WILDCARDS))
        if key not in self._options:
            request = getattr(self, f"_{stage}_request")(*key[1:])
            self._options[key] = canonical_json(request.model_dump(mode="json", exclude_defaults=True))
        return self._options[key]

    def _import_request(self, model: str, *_: str) -> Strict:
        return self._model(model).import_options()

    def _reference_request(self, model: str, *_: str) -> Strict:
        own = self._model(model)
        validation = overridden(self.config.validation, own.validation)
        return ReferenceRequest(
            model=own.import_options(),
            dims={**validation.dims, **own.dims},
            dataset=own.dataset,
            # With a dataset nothing is drawn, so samples and seed would only cause needless reruns.
            **({} if own.dataset else {"samples": validation.samples, "seed": validation.seed}),
        )

    def _transform_request(self, model: str, precision: str, _target: str, _number: str, candidate: str) -> Strict:
        own = self._model(model)
        options = self._transform(model)
        # Without a candidate this is the network of variants that are not tuned.
        wanted = candidate or ("keep" if options.layout == "auto" else options.layout)
        transform = options.model_copy(update={"passes": self._passes(model, "transform"), "layout": wanted})
        return TransformRequest(precision=self.config.precisions[precision], transform=transform, dims=own.dims)

    def _choose_layout_request(self, model: str, precision: str, target: str, *_: str) -> Strict:
        return ChooseLayoutRequest(
            layouts=list(CANDIDATES),
            trials=self.tuning(target, model).layout_trials,
            extract=self._extract_request(model, precision, target),
            tune=self._tune_request(model, precision, target),
        )

    def _extract_request(self, model: str, _precision: str, target: str, *_: str) -> ExtractRequest:
        return ExtractRequest(
            **self._target(target),
            opt_level=overridden(self.config.build, self._model(model).build).opt_level,
            passes=self._passes(model, "build"),
        )

    def _budget_request(self, _model: str, _precision: str, target: str, number: str, *_: str) -> Strict:
        budgets = {}
        for variant in self.tuned_variants(target):
            own = self.tuning(target, variant.model)
            budgets[f"{variant.model}/{variant.precision}"] = ModelBudget(
                trials=own.trials, trials_per_kernel=own.trials_per_kernel, floor=own.floor
            )
        return BudgetRequest(target_name=target, number=int(number), passes=self.passes(target), variants=budgets)

    def _tune_request(self, _model: str, _precision: str, target: str, *_: str) -> TuneRequest:
        options = self.tuning(target)
        search = {name: getattr(options, name) for name in SearchOptions.model_fields}
        return TuneRequest(
            **self._target(target),
            **self._device(target),
            search=SearchOptions(**search),
            measure=options.measure,
            store=options.store,
            shared=options.shared,
        )

    def _pick_best_request(self, _model: str, _precision: str, target: str, *_: str) -> Strict:
        options = self.tuning(target)
        return PickBestRequest(
            **self._target(target), **self._device(target), store=options.store, untuned=options.untuned
        )

    def _build_request(self, model: str, precision: str, target: str, *_: str) -> Strict:
        return BuildRequest(
            model=model,
            precision=precision,
            **self._target(target),
            build=overridden(self.config.build, self._model(model).build),
            passes=self._passes(model, "build"),
            require_coverage=self.tuning(target, model).require_coverage,
        )

    def _deploy_request(self, _model: str, _precision: str, target: str, *_: str) -> Strict:
        return DeployRequest(**self._device(target))

    def _validate_request(self, model: str, precision: str, target: str, *_: str) -> Strict:
        own = self._model(model)
        base = self.config.precisions[precision].base
        validation = overridden(self.config.validation, own.validation)
        return ValidateRequest(**self._device(target), goals=goals_for(base, validation.goals, own.goals))

    def _benchmark_request(self, model: str, _precision: str, target: str, *_: str) -> Strict:
        return BenchmarkRequest(**self._device(target), measurement=self.measurement(model))

    def _report_request(self, *_: str) -> Strict:
        rows = [
            VariantRow(
                **vars(variant),
                device=self.device_of(variant.target),
                is_tuned=self.is_tuned(variant),
                layout=self.layout_of(variant),
            )
            for variant in self.variants
        ]
        return ReportRequest(results=self.config.results, variants=rows)

    def _model(self, name: str) -> ModelConfig:
        return self.config.models[name]

    def _transform(self, model: str) -> TransformOptions:
        return overridden(self.config.transform, self._model(model).transform)

    def _passes(self, model: str, stage: str) -> list[UserPass]:
        points = TRANSFORM_POINTS if stage == "transform" else BUILD_POINTS
        return [user_pass for user_pass in self._transform(model).passes if user_pass.at in points]

    def _target(self, target: str) -> dict[str, Any]:
        """What code for a target depends on: not where it runs, nor how it is tuned."""
        wanted: TargetConfig = self.config.targets[target]
        return {
            "target_name": target,
            "target": wanted.model_copy(update={"device": None, "tuning": None}),
            "cpu": cpu_identity() if wanted.is_native else None,
        }

    def _device(self, target: str) -> dict[str, Any]:
        name = self.device_of(target) or "local"
        # Where a cluster has it does not change what is done with it.
        return {"device_name": name, "device": self.config.device(name).model_copy(update={"gres": None})}

    # --- triggers and resources -----------------------------------------------------------------------------------

    def fingerprint(self, stage: str, model: str | None = None) -> str:
        """Digest of the code and library versions a stage uses; for import and reference, of that model's format."""
        roots = [STAGE_MODULES[stage]]
        if stage == "pick_best":
            roots.append(LOCKED)
        if model is not None:
            kind = str(self._model(model).source_format())
            if stage == "import":
                roots += FRONTENDS[kind]
            elif stage == "reference":
                roots.append(RUNTIMES[kind])
        return fingerprint(*roots)

    def resolved_config(self) -> dict[str, Any]:
        """The config as it was understood, defaults included; it loads to an equal plan.

        Models and goals have the keys they set: an unset one there means the general value, not null.
        """
        values = self.config.model_dump(mode="json")
        values["models"] = {
            name: model.model_dump(mode="json", exclude_unset=True) for name, model in self.config.models.items()
        }
        values["validation"]["goals"] = self.config.validation.goals.model_dump(mode="json", exclude_unset=True)
        return values

    def write_resolved_config(self) -> None:
        """Write the config as it was understood beside the results."""
        text = yaml.safe_dump(self.resolved_config(), sort_keys=False, allow_unicode=True)
        write_text(Path(self.file("resolved_config")), text)
