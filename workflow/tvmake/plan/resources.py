"""Resources that jobs need: memory, time, cores, a device.

Schedulers on this machine or on a cluster read these figures. Results do not depend on them, and a job whose resources
change is not rerun. The figures are limits, not estimates: several times the observed use of the stages.
"""

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tvmake.config.device import DeviceConfig, LocalDeviceConfig
from tvmake.plan.plan import Plan
from tvmake.stages.registry import stages

COPIES = 8
"""Maximum number of copies of the weights in memory: the file, the converted copies, constants of the compiler."""

MB_A_MINUTE = 20
"""MB of weights for each additional minute of a stage's time limit."""


class JobResources:
    """Resources of a plan's jobs, as functions of wildcards for the rules.

    Args:
        cores: cores of this machine that Snakemake may use.
        on_cluster: whether jobs run on other machines; called with a job's resources.
    """

    def __init__(self, plan: Plan, cores: int | None, on_cluster: Callable[[], bool]):
        self._plan = plan
        self._cores = max(1, cores or 1)
        self._on_cluster = on_cluster
        self._devices: dict[str, DeviceConfig] = {}
        self._weights: dict[str, int] = {}

    def of(self, stage: str) -> dict[str, Callable[..., Any]]:
        """A rule's ``resources``, by name."""
        descriptor = stages()[stage]
        needs: dict[str, Callable[..., Any]] = {"mem_mb": self.memory_mb(stage), "runtime": self.minutes(stage)}
        if descriptor.is_on_device:
            needs["gres"] = self.gres
        if descriptor.is_timing:
            needs["slurm_extra"] = self.slurm_extra
        return needs

    def memory_mb(self, stage: str) -> Callable[[Any, int], int]:
        """Memory in MB; more with each attempt, for profiles that retry killed jobs."""

        descriptor = stages()[stage]

        def memory_mb(wildcards: Any, attempt: int) -> int:
            weights = self._weights_mb(wildcards.model) if descriptor.holds_weights else 0
            return (descriptor.memory_mb + COPIES * weights) * attempt

        return memory_mb

    def minutes(self, stage: str) -> Callable[[Any, int], int]:
        """Time limit in minutes; more with each attempt."""

        descriptor = stages()[stage]

        def minutes(wildcards: Any, attempt: int) -> int:
            seconds = 60 * descriptor.minutes + descriptor.more_seconds(self._plan.context(wildcards))
            if descriptor.holds_weights:
                seconds += 60 * self._weights_mb(wildcards.model) // MB_A_MINUTE
            if descriptor.is_on_device:
                device = self._device(wildcards.target)
                seconds += device.timeout_s + (0 if isinstance(device, LocalDeviceConfig) else device.wait_s)
                seconds += device.conditioning.wait_s if device.conditioning else 0
            return math.ceil(seconds / 60) * attempt

        return minutes

    def threads(self, stage: str) -> Callable[[Any], int]:
        """Cores to reserve.

        A benchmark on this machine takes all cores. Tuning jobs on this machine wait for each other themselves.
        On a cluster both take a whole node, which is assumed to have as many cores as this machine unless
        ``devices.<name>.threads`` says otherwise.
        """

        def threads(wildcards: Any) -> int:
            device = self._device(wildcards.target)
            if not isinstance(device, LocalDeviceConfig):
                return 1
            if self._on_cluster():
                return device.threads or self._cores
            return self._cores if stages()[stage].is_alone else 1

        return threads

    def gres(self, wildcards: Any) -> str:
        """The generic resource of a target's device on a Slurm cluster; empty if it has none."""
        return self._device(wildcards.target).gres or ""

    def slurm_extra(self, wildcards: Any) -> str:
        """Additional options for Slurm's ``sbatch``: an exclusive node for timing on the node's own cores."""
        return "--exclusive" if isinstance(self._device(wildcards.target), LocalDeviceConfig) else ""

    def _device(self, target: str) -> DeviceConfig:
        if target not in self._devices:
            self._devices[target] = self._plan.context({"target": target}).device
        return self._devices[target]

    def _weights_mb(self, model: str) -> int:
        if model not in self._weights:
            self._weights[model] = self._model_bytes(model)
        # Code that builds a network is small; the size of the network is known after its import.
        imported = self._plan.file("model.params", model=model)
        try:
            return max(self._weights[model], os.stat(imported).st_size) // 1_000_000  # noqa: PTH116  # of every job
        except FileNotFoundError:
            return self._weights[model] // 1_000_000

    def _model_bytes(self, model: str) -> int:
        files = (Path(file) for file in self._plan.context({"model": model}).model_files)
        return sum(file.stat().st_size for file in files if file.is_file())
