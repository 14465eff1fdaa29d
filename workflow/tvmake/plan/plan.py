"""The plan: what a config asks for, in the terms the workflow needs."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from tvmake.config.reading.former_keys import KeyPath
from tvmake.config.reading.load import check
from tvmake.config.reading.places import Position
from tvmake.config.reading.yaml_file import read_yaml
from tvmake.config.root import Config
from tvmake.plan.jobs import Job, Jobs
from tvmake.plan.planned_config import PlannedConfig, PlannedJob, Variant
from tvmake.plan.requests import Requests
from tvmake.stages import registry
from tvmake.stages.descriptor import Output, Stage
from tvmake.stages.package.contents import sample_files
from tvmake.stages.package.self_test import dataset_files as sampled_dataset_files
from tvmake.stages.results.benchmark import baseline_files
from tvmake.stages.results.validate import metric_files
from tvmake.storage.directories import LOGS
from tvmake.storage.files import write_text
from tvmake.storage.notes.own_directories import make_own
from tvmake.transform.options import BUILD_POINTS, CANDIDATES, FLOAT_POINTS, TRANSFORM_POINTS

__all__ = ["Job", "Plan", "Variant"]


class Plan(PlannedConfig):
    """What a config asks for: variants, files, jobs, and the options and fingerprint of each stage."""

    def __init__(self, config: Config):
        super().__init__(config)
        self._requests = Requests(self)
        self._jobs = Jobs(self, self._requests)

    @classmethod
    def from_values(cls, values: Mapping[str, Any], files: Iterable[str] = ()) -> "Plan":
        """Build a plan from merged config values, as Snakemake holds them.

        Args:
            values: the config.
            files: the config files the values came from, to name file and line in errors.

        Raises:
            InputError, ErrorList: the config is wrong.
        """
        positions: dict[KeyPath, Position] = {}
        names = [str(file) for file in files]
        for name in names:
            read_yaml(Path(name), positions)
        return cls(check(values, _of_section(positions), default_file=names[-1] if names else "config"))

    # --- stages ---------------------------------------------------------------------------------------------------

    def options(self, stage: str, wildcards: Any = None) -> str:
        """Canonical JSON of exactly what a stage reads of the config; empty for a stage that reads nothing of it.

        Args:
            stage: the stage's name.
            wildcards: an object with the attributes ``model``, ``precision``, ``target``, ``number``, ``layout`` that the
                stage has, such as a variant; others do not matter.
        """
        return self._requests.options(stage, wildcards)

    def fingerprint(self, stage: str, wildcards: Any = None) -> str:
        """Digest of the code and library versions a stage uses; with wildcards, of what one job of it uses (code for its
        model's format)."""
        return self._requests.fingerprint(stage, wildcards)

    def roots(self, stage: str, wildcards: Any = None) -> tuple[str, ...]:
        """The modules that a stage's code begins with; with wildcards, those too that one job of it has loaded by name."""
        return self._requests.roots(stage, wildcards)

    # --- files ----------------------------------------------------------------------------------------------------

    def goals(self) -> list[str]:
        """The files that a full run is for: the best packages, the report, and all that each variant promises."""
        gathered = [file for job in self.run_jobs() for file in job.outputs]
        return [*gathered, *(file for variant in self.variants for file in self.goals_of(variant))]

    def goals_of(self, variant: Variant) -> list[str]:
        """The files that a variant promises: without one of them it is not made, whatever is known of the others."""
        goals = {output.artifact for stage in registry.stages().values() if stage.is_goal for output in stage.outputs}
        return [path for path, output in self.outputs_of(variant).items() if output.artifact in goals]

    def results_of(self, artifact: str) -> list[str]:
        """One file per variant that has it: numerics and latency need a device, records tuning, ranges ``int8``, a choice ``auto``."""
        stage = registry.maker(artifact)
        files = [context.file(artifact) for context in self.contexts() if stage is None or stage.exists(context)]
        return list(dict.fromkeys(files))

    def task_files(self, target: str) -> list[str]:
        """The kernels of each variant that is tuned for a target."""
        return [context.file("tasks.json") for context in self.contexts(target) if context.is_tuned]

    def transformed(self, artifact: str, variant: Any) -> str:
        """``module.json``, ``module.params`` or ``signature.json`` of the network that a variant is built from: that of its precision,
        or that in the layout it has chosen."""
        return PlannedJob(self, variant.model, variant.precision, variant.target).network_file(artifact)

    def candidates(self, artifact: str, variant: Any) -> list[str]:
        """One file per layout that a variant chooses from."""
        return [
            self.file(artifact, model=variant.model, precision=variant.precision, layout=layout)
            for layout in CANDIDATES
        ]

    def best_files(self, variant: Any) -> list[str]:
        """The records that a variant is built with: none unless it is tuned."""
        context = PlannedJob(self, variant.model, variant.precision, variant.target)
        return [context.file("best.json")] if context.is_tuned else []

    def baseline_files(self, variant: Any) -> list[str]:
        """The record of the source that is measured beside a package: none where it is not."""
        return baseline_files(self.context(variant))

    def calibration_files(self, variant: Any) -> list[str]:
        """The ranges that a precision's network is made with: none unless it is int8, or chosen among int8 and others."""
        context = PlannedJob(self, variant.model, variant.precision)
        return [context.file("calibration.json")] if context.precision_config.is_calibrated else []

    def calibrated_files(self, model: str) -> list[str]:
        """What the calibrate stage reads besides the imported network."""
        return [*self.model(model).dataset_files, *PlannedJob(self, model).pass_files(FLOAT_POINTS)]

    def sample_files(self, wildcards: Any) -> list[str]:
        """The samples that a package tests itself by: none for a package without a self-test."""
        return sample_files(self.context(wildcards))

    def self_test_files(self, model: str) -> list[str]:
        """What the self-test stage reads besides the imported network."""
        return [*self.model_files(model), *sampled_dataset_files(PlannedJob(self, model))]

    def model_files(self, model: str) -> list[str]:
        """What the import stage reads."""
        return self.model(model).files

    def reference_files(self, model: str) -> list[str]:
        """What the reference stage reads besides the signature."""
        return [*self.model(model).files, *self.model(model).dataset_files]

    def pass_files(self, stage: str, model: str) -> list[str]:
        """The Python files of the user passes a stage runs."""
        points = {"transform": TRANSFORM_POINTS, "choose_precision": (*TRANSFORM_POINTS, *BUILD_POINTS)}
        return PlannedJob(self, model).pass_files(points.get(stage, BUILD_POINTS))

    def choosing_files(self, variant: Any) -> list[str]:
        """What the choose_precision stage reads of the user's, locks aside."""
        return [*self.pass_files("choose_precision", variant.model), *self.metric_files(variant)]

    def metric_files(self, wildcards: Any) -> list[str]:
        """The Python files of the metrics that a package is validated with."""
        return metric_files(self.context(wildcards))

    def source_files(self, model: str) -> list[str]:
        """All files that a model's jobs read and none makes."""
        passes = self.pass_files("transform", model) + self.pass_files("build", model)
        variants = [context for context in self.contexts() if context.model == model]
        metrics = [file for context in variants for file in metric_files(context)]
        return list(dict.fromkeys([*self.reference_files(model), *passes, *metrics]))

    # --- jobs -----------------------------------------------------------------------------------------------------

    def jobs(self, variant: Variant) -> tuple[Job, ...]:
        """The jobs that a variant's goals depend on, shared ones included, in the order that data flows.

        Searches are those of budgets that are there. What a budget reads of other variants is made by their jobs.
        """
        return self._jobs.of_variant(variant)

    def run_jobs(self) -> tuple[Job, ...]:
        """The jobs that there are once in a run, in the order that data flows: they gather every variant's figures."""
        return self._jobs.of_run()

    def outputs_of_stage(self, stage: Stage) -> Mapping[str, Output]:
        """What a stage makes for all variants, by path."""
        return {path: output for variant in self.variants for output, path in self._jobs.outputs_of(variant, stage)}

    def outputs_of(self, variant: Variant) -> Mapping[str, Output]:
        """What stages make for a variant, whether its goals depend on it or not, by path."""
        return {path: output for output, path in self._jobs.outputs_of(variant)}

    # --- the config -----------------------------------------------------------------------------------------------

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
        """Write the config as it was understood beside the results, unless it stands there already; makes their directory."""
        for directory in (self.config.results, LOGS):
            make_own(directory)
        if not self.has_written_config():
            write_text(Path(self.file("config.resolved.yaml")), self._resolved_text())

    def has_written_config(self) -> bool:
        """Whether the config as it was understood stands beside the results. Runs write it, no job does."""
        path = Path(self.file("config.resolved.yaml"))
        return path.is_file() and path.read_bytes() == self._resolved_text().encode()

    def _resolved_text(self) -> str:
        return yaml.safe_dump(self.resolved_config(), sort_keys=False, allow_unicode=True)


def _of_section(positions: Mapping[KeyPath, Position]) -> dict[KeyPath, Position]:
    """Where the keys of a config stand that is one section of another workflow's: the one that holds ``models``."""
    sections = [path[:-1] for path in positions if path[-1] == "models"]
    section = min(sections, key=len, default=())
    return {path[len(section) :]: place for path, place in positions.items() if path[: len(section)] == section}
