"""The plan: what a config requests, for the workflow."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from tvmake.config.reading.load import check, names_of_axes
from tvmake.config.reading.positions import KeyPath, Position
from tvmake.config.reading.yaml_file import read_yaml
from tvmake.config.root import Config
from tvmake.plan.jobs import Job, Jobs, Variant
from tvmake.plan.requests import Requests
from tvmake.stages import registry
from tvmake.stages.context import JobContext
from tvmake.stages.descriptor import LOCK, Output, Stage
from tvmake.storage.files import write_text
from tvmake.storage.notes.own_directories import create_own_directory

__all__ = ["Job", "Plan", "Variant"]


class Plan:
    """A config's variants, files and jobs, and each stage's options and fingerprint.

    A plan is for one run: it caches what it computes from the config.
    """

    def __init__(self, config: Config):
        self.config = config
        self._run = JobContext(config, registry.patterns())
        self._requests = Requests(self._run)
        self._jobs = Jobs(self._run, self._requests)

    @classmethod
    def from_values(cls, values: Mapping[str, Any], files: Iterable[str] = ()) -> "Plan":
        """Build a plan from merged config values, as Snakemake holds them.

        Args:
            values: the config.
            files: the config files the values came from, for file and line in errors.

        Raises:
            InputError, ErrorList: the config is invalid.
        """
        positions: dict[KeyPath, Position] = {}
        names = [str(file) for file in files]
        layers = [read_yaml(Path(name), positions) for name in names]
        section = _section(positions)
        within = {
            path[len(section) :]: position for path, position in positions.items() if path[: len(section)] == section
        }
        former = names_of_axes([_at(layer, section) for layer in layers])
        return cls(check(values, within, names[-1] if names else "config", former))

    # --- variants -------------------------------------------------------------------------------------------------

    @cached_property
    def variants(self) -> tuple[Variant, ...]:
        """Every combination to make, in config order."""
        return tuple(Variant(*combination) for combination in self.config.combinations())

    @cached_property
    def runnable(self) -> tuple[Variant, ...]:
        """The variants whose target has a device; others end with their package."""
        return tuple(variant for variant in self.variants if self.context(variant).device_name)

    def names_of(self, variant: Variant) -> tuple[str, ...]:
        """The names that select a variant: its own and its network's, and those of the model that has it as a function."""
        names = (variant.model, self.config.group_of(variant.model))
        return tuple(text for name in names if name for text in (name, f"{name}/{variant.precision}/{variant.target}"))

    def context(self, wildcards: Any) -> JobContext:
        """A stage's view of the config (:meth:`tvmake.stages.context.JobContext.at`)."""
        return self._run.at(wildcards)

    # --- stages ---------------------------------------------------------------------------------------------------

    def options(self, stage: str, wildcards: Any = None) -> str:
        """Canonical JSON of exactly the values that a stage reads from the config; empty if it reads none.

        Args:
            stage: the stage's name.
            wildcards: the job's (:meth:`tvmake.stages.context.JobContext.at`); others than the stage's are ignored.
        """
        return self._requests.options(stage, wildcards)

    def fingerprint(self, stage: str, wildcards: Any = None) -> str:
        """Digest of the code and library versions that a stage uses; with wildcards, that one of its jobs uses (code for its
        model's format)."""
        return self._requests.fingerprint(stage, wildcards)

    def roots(self, stage: str, wildcards: Any = None) -> tuple[str, ...]:
        """The entry modules of a stage's code; with wildcards, also those that one of its jobs loads by name."""
        return self._requests.roots(stage, wildcards)

    # --- files ----------------------------------------------------------------------------------------------------

    def goals(self) -> list[str]:
        """The files that a full run makes: the best packages, the report, and the goals of each variant."""
        gathered = [file for job in self.run_jobs() for file in job.outputs]
        return list(dict.fromkeys([*gathered, *(file for variant in self.variants for file in self.goals_of(variant))]))

    def goals_of(self, variant: Variant) -> list[str]:
        """The files that a variant promises. If one is missing, the variant is not made."""
        goals = {output.artifact for stage in registry.stages().values() if stage.is_goal for output in stage.outputs}
        return [path for path, output in self.outputs_of(variant).items() if output.artifact in goals]

    def path(self, artifact: str) -> str:
        """A file's path with Snakemake wildcards."""
        return registry.pattern(artifact, self.config.results)

    def file(self, artifact: str, variant: Variant | None = None, /, **wildcards: str | int) -> str:
        """A file's path for one variant, or for other wildcards, or for the run."""
        return self._run.file(artifact, **(vars(variant) if variant else {}), **wildcards)

    def results_of(self, artifact: str) -> list[str]:
        """The files of an artifact for each variant that has it (:func:`tvmake.stages.registry.files_of_variants`)."""
        return registry.files_of_variants(artifact, self._run.variants)

    def source_files(self, model: str) -> list[str]:
        """All files that a model's jobs read and no job makes, except locks."""
        variants = [context for context in self._run.variants if context.model == model]
        files: dict[str, None] = {}
        for stage in registry.stages().values():
            names = dict.fromkeys(name for kind in stage.kinds for name in kind.wildcards)
            jobs = {tuple(getattr(variant, name) for name in names): variant for variant in variants}
            if list(names) == ["model"]:  # also without a variant
                jobs = {(model,): self.context({"model": model})}
            for entry in stage.sources:
                if entry is not LOCK:
                    files.update(dict.fromkeys(path for job in jobs.values() for path in entry.paths(job)))
        return list(files)

    # --- jobs -----------------------------------------------------------------------------------------------------

    def jobs(self, variant: Variant) -> tuple[Job, ...]:
        """The jobs that a variant's goals depend on, shared ones included, in the order of the data flow.

        Searches are those of existing budgets. A budget's inputs from other variants are made by the jobs of those.
        """
        return self._jobs.of_variant(variant)

    def run_jobs(self) -> tuple[Job, ...]:
        """The jobs that exist once in a run, in the order of the data flow. They gather the results of all variants."""
        return self._jobs.of_run()

    def written_files(self, variants: Iterable[Variant]) -> Iterable[str]:
        """Outputs and logs of the jobs of variants, and of those of the run; each once."""
        return dict.fromkeys(self._jobs.written_files(variants))

    def outputs_of_stage(self, stage: Stage) -> Mapping[str, Output]:
        """Outputs of a stage for all variants, by path."""
        return {path: output for variant in self.variants for output, path in self._jobs.outputs_of(variant, stage)}

    def outputs_of(self, variant: Variant) -> Mapping[str, Output]:
        """Outputs of all stages for a variant, by path; also those that goals do not depend on."""
        return {path: output for output, path in self._jobs.outputs_of(variant)}

    # --- the config -----------------------------------------------------------------------------------------------

    def resolved_config(self) -> dict[str, Any]:
        """The config with defaults. It loads to an equal plan.

        Models and goals contain only the keys that are set: an unset key there means the general value, not null.
        """
        values = self.config.model_dump(mode="json")
        values["models"] = {
            name: model.model_dump(mode="json", exclude_unset=True) for name, model in self.config.models.items()
        }
        # Without names that a later file removed: this document does not have them.
        known = {
            "model": {*self.config.models, *self.config.networks},
            "precision": set(self.config.precisions),
            "target": set(self.config.targets),
        }
        values["variants"]["exclude"] = [
            part
            for part in values["variants"]["exclude"]
            if all(part[key] is None or part[key] in names for key, names in known.items())
        ]
        values["validation"]["goals"] = self.config.validation.goals.model_dump(mode="json", exclude_unset=True)
        return values

    def write_resolved_config(self) -> None:
        """Write the resolved config into the results, unless it exists unchanged. Creates the directories."""
        for directory in (self.config.results, self.config.logs):
            create_own_directory(directory)
        if not self.has_written_config():
            write_text(Path(self.file("config.resolved.yaml")), self._resolved_text())

    def has_written_config(self) -> bool:
        """Whether the results contain the current resolved config. Runs write it, no job does."""
        path = Path(self.file("config.resolved.yaml"))
        return path.is_file() and path.read_bytes() == self._resolved_text().encode()

    def _resolved_text(self) -> str:
        return yaml.safe_dump(self.resolved_config(), sort_keys=False, allow_unicode=True)


def _section(positions: Mapping[KeyPath, Position]) -> KeyPath:
    """The key whose value is the config: empty, or a section of another workflow's config, which contains ``models``."""
    return min((path[:-1] for path in positions if path[-1] == "models"), key=len, default=())


def _at(values: Any, path: KeyPath) -> Mapping[str, Any]:
    """The mapping at a key; an empty one if there is none."""
    for key in path:
        values = values.get(key) if isinstance(values, Mapping) else None
    return values if isinstance(values, Mapping) else {}
