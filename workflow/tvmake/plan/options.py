"""What the config holds for one model and for one target, each worked out once."""

from functools import cached_property
from typing import Any

from tvmake.codegen.options import BuildOptions
from tvmake.config import dataset_files
from tvmake.config.benchmark import BenchmarkOptions
from tvmake.config.device import DeviceConfig
from tvmake.config.export import ExportOptions
from tvmake.config.root import Config, overridden
from tvmake.config.tuning import TuningOptions
from tvmake.config.validation import ValidationOptions
from tvmake.errors import InputError
from tvmake.frontend.model_files import model_files
from tvmake.frontend.options import ImportOptions
from tvmake.targets.cpu.identity import cpu_identity
from tvmake.transform.options import TransformOptions


class ModelOptions:
    """A model's options, over the general ones."""

    def __init__(self, config: Config, name: str):
        self._config = config
        self.name = name
        self.config = config.models[name]

    @cached_property
    def import_options(self) -> ImportOptions:
        """What the import stage reads."""
        return self.config.import_options()

    @cached_property
    def transform(self) -> TransformOptions:
        """Graph rewrites."""
        return overridden(self._config.transform, self.config.transform)

    @cached_property
    def build(self) -> BuildOptions:
        """How its variants are built."""
        return overridden(self._config.build, self.config.build)

    @cached_property
    def export(self) -> ExportOptions:
        """What goes into its packages."""
        return overridden(self._config.export, self.config.export)

    @cached_property
    def validation(self) -> ValidationOptions:
        """How its packages' numerics are checked."""
        return overridden(self._config.validation, self.config.validation)

    @cached_property
    def benchmark(self) -> BenchmarkOptions:
        """How its packages are timed."""
        return overridden(self._config.benchmark, self.config.benchmark)

    @property
    def files(self) -> list[str]:
        """The model's files, as they are now."""
        return model_files(self.config)

    @property
    def dataset_files(self) -> list[str]:
        """The files of its dataset, as they are now.

        Raises:
            InputError: it is a list that cannot be read.
        """
        try:
            return dataset_files.dataset_files(self.config.dataset)
        except InputError as error:
            key = f"models.{self.name}.dataset.path"
            raise InputError(key, f"{error.where}: {error.problem}", error.remedy) from None


class TargetOptions:
    """A target's options, over the general ones."""

    def __init__(self, config: Config, name: str):
        self._config = config
        self.name = name
        self.config = config.targets[name]
        self.tuning: TuningOptions = overridden(config.tuning, self.config.tuning)
        self._tuning_of_models: dict[str, TuningOptions] = {}

    def tuning_of(self, model: str) -> TuningOptions:
        """The tuning options of one model on this target."""
        if model not in self._tuning_of_models:
            override = self._config.models[model].tuning
            self._tuning_of_models[model] = (
                self.tuning.model_copy(update=override.model_dump(exclude_none=True)) if override else self.tuning
            )
        return self._tuning_of_models[model]

    @property
    def device_name(self) -> str | None:
        """The device that packages of the target run on, if there is one."""
        return self.config.runs_on

    @cached_property
    def device(self) -> DeviceConfig:
        """That device; this machine for a target without one."""
        return self._config.device(self.device_name or "local")

    @cached_property
    def target_fields(self) -> dict[str, Any]:
        """What code for the target depends on: not where it runs, nor how it is tuned."""
        return {
            "target_name": self.name,
            "target": self.config.options(),
            "cpu": cpu_identity() if self.config.is_native else None,
        }

    @cached_property
    def device_fields(self) -> dict[str, Any]:
        """Where the target's packages run."""
        # Where a cluster has the device does not change what is done with it.
        return {
            "device_name": self.device_name or "local",
            "device": self.device.model_copy(update={"gres": None}),
        }

    @property
    def rounds(self) -> int:
        """The number of rounds in which the target's trials are spent; 0 where a lock gives the records."""
        return 0 if self.tuning.frozen else self.tuning.rounds
