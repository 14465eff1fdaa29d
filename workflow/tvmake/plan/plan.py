"""The plan: what a config asks for, in the terms the workflow needs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from tvmake.artifact.files import canonical_json, write_text
from tvmake.config.base import Strict
from tvmake.config.load import check
from tvmake.config.requests.building import BuildRequest
from tvmake.config.requests.referencing import ReferenceRequest
from tvmake.config.requests.reporting import ReportRequest, VariantRow
from tvmake.config.requests.running import BenchmarkRequest, DeployRequest, ValidateRequest
from tvmake.config.requests.transforming import TransformRequest
from tvmake.config.root import Config, ModelConfig, overridden
from tvmake.config.transform import BUILD_POINTS, TRANSFORM_POINTS, TransformOptions, UserPass
from tvmake.config.validation import goals_for
from tvmake.plan import layout, model_files, sources
from tvmake.plan.fingerprint import fingerprint
from tvmake.plan.formats import FRONTENDS, RUNTIMES
from tvmake.plan.machine import cpu_identity

STAGES = ("import", "reference", "transform", "build", "export", "deploy", "validate", "benchmark", "report")
"""The stages, in the order data flows through them; each is a rule, a ``tvmake step`` command and a module."""

STAGE_MODULES = {stage: f"tvmake.stages.{'import_model' if stage == 'import' else stage}" for stage in STAGES}


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

    # --- paths ----------------------------------------------------------------------------------------------------

    def path(self, artifact: layout.Artifact) -> str:
        """A file's path with Snakemake wildcards."""
        return layout.pattern(artifact, self.config.results)

    def file(self, artifact: layout.Artifact, variant: Variant | None = None) -> str:
        """A file's path for one variant (or for the run, when the artifact belongs to none)."""
        return layout.path(artifact, self.config.results, **(vars(variant) if variant else {}))

    def goals(self) -> list[str]:
        """The files that a full run makes."""
        return [self.file("summary"), self.file("summary_csv"), self.file("page")]

    def results_of(self, artifact: layout.Artifact) -> list[str]:
        """One file per variant; for numerics and latency only where the target has a device."""
        variants = self.runnable if artifact in ("receipt", "numerics", "latency") else self.variants
        return [self.file(artifact, variant) for variant in variants]

    def model_files(self, model: str) -> list[str]:
        """What the import stage reads."""
        return model_files.model_files(self.config.models[model])

    def reference_files(self, model: str) -> list[str]:
        """What the reference stage reads besides the signature."""
        return self.model_files(model) + sources.dataset_files(self.config.models[model].dataset)

    def pass_files(self, stage: str, model: str) -> list[str]:
        """The Python files of the user passes a stage runs."""
        return sources.pass_files(self._passes(model, stage))

    # --- options --------------------------------------------------------------------------------------------------

    def options(self, stage: str, wildcards: Any = None) -> str:
        """Canonical JSON of exactly what a stage reads of the config.

        Args:
            wildcards: an object or Variant with the attributes ``model``, ``precision``, ``target`` that the stage has.
        """
        key = (stage, *(str(getattr(wildcards, part, "")) for part in ("model", "precision", "target")))
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

    def _transform_request(self, model: str, precision: str, *_: str) -> Strict:
        own = self._model(model)
        transform = self._transform(model).model_copy(update={"passes": self._passes(model, "transform")})
        return TransformRequest(precision=self.config.precisions[precision], transform=transform, dims=own.dims)

    def _build_request(self, model: str, precision: str, target: str) -> Strict:
        own, wanted = self._model(model), self.config.targets[target]
        return BuildRequest(
            model=model,
            precision=precision,
            target_name=target,
            target=wanted.model_copy(update={"device": None}),
            build=overridden(self.config.build, own.build),
            passes=self._passes(model, "build"),
            cpu=cpu_identity() if wanted.is_native else None,
        )

    def _deploy_request(self, _model: str, _precision: str, target: str) -> Strict:
        return DeployRequest(**self._device(target))

    def _validate_request(self, model: str, precision: str, target: str) -> Strict:
        own = self._model(model)
        base = self.config.precisions[precision].base
        validation = overridden(self.config.validation, own.validation)
        return ValidateRequest(**self._device(target), goals=goals_for(base, validation.goals, own.goals))

    def _benchmark_request(self, model: str, _precision: str, target: str) -> Strict:
        own = self._model(model)
        options = overridden(self.config.benchmark, own.benchmark)
        return BenchmarkRequest(**self._device(target), measurement=options.measurement())

    def _report_request(self, *_: str) -> Strict:
        rows = [VariantRow(**vars(variant), device=self.device_of(variant.target)) for variant in self.variants]
        return ReportRequest(results=self.config.results, variants=rows)

    def _model(self, name: str) -> ModelConfig:
        return self.config.models[name]

    def _transform(self, model: str) -> TransformOptions:
        return overridden(self.config.transform, self._model(model).transform)

    def _passes(self, model: str, stage: str) -> list[UserPass]:
        points = TRANSFORM_POINTS if stage == "transform" else BUILD_POINTS
        return [user_pass for user_pass in self._transform(model).passes if user_pass.at in points]

    def _device(self, target: str) -> dict[str, Any]:
        name = self.device_of(target) or "local"
        return {"device_name": name, "device": self.config.device(name)}

    # --- triggers and resources -----------------------------------------------------------------------------------

    def fingerprint(self, stage: str, model: str | None = None) -> str:
        """Digest of the code and library versions a stage uses; for import and reference, of that model's format."""
        roots = [STAGE_MODULES[stage]]
        if model is not None:
            kind = str(self._model(model).source_format())
            if stage == "import":
                roots += FRONTENDS[kind]
            elif stage == "reference":
                roots.append(RUNTIMES[kind])
        return fingerprint(*roots)

    def benchmark_threads(self, target: str, cores: int | None) -> int:
        """Cores to reserve while a package of this target is timed: all of them where it runs on this machine."""
        return max(1, cores or 1) if self.config.device(self.device_of(target) or "local").via == "local" else 1

    def memory_mb(self, stage: str, model: str) -> int:
        """A generous guess of what a stage needs, in MB, from the size of the model's files."""
        size = sum(Path(file).stat().st_size for file in self.model_files(model) if Path(file).is_file()) // 1_000_000
        return {"import": 1000, "reference": 1000, "transform": 1000, "build": 1500}.get(stage, 600) + 8 * size

    def write_resolved_config(self) -> None:
        """Write the config as it was understood, defaults included, beside the results; it loads to an equal plan.

        Models and goals are written with the keys they set: an unset one there means the general value, not null.
        """
        values = self.config.model_dump(mode="json")
        values["models"] = {
            name: model.model_dump(mode="json", exclude_unset=True) for name, model in self.config.models.items()
        }
        values["validation"]["goals"] = self.config.validation.goals.model_dump(mode="json", exclude_unset=True)
        write_text(Path(self.file("resolved_config")), yaml.safe_dump(values, sort_keys=False, allow_unicode=True))
