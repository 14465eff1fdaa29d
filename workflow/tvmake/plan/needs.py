"""What jobs need of the machine they run on: memory, time, cores, a device.

Schedulers read these figures, on this machine or on a cluster. Results do not depend on them, and a job whose needs
have changed is not run again. The figures are limits, not estimates: several times what the stages were seen to use.
"""

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tvmake.config.device import DeviceConfig
from tvmake.plan.plan import Plan

MEMORY_MB = {
    "import": 1500,
    "reference": 1500,
    "transform": 1500,
    "choose_layout": 2500,
    "extract": 1000,
    "budget": 600,
    "tune": 2000,
    "pick_best": 1500,
    "build": 2000,
    "export": 600,
    "attest": 600,
    "deploy": 800,
    "validate": 1200,
    "benchmark": 1200,
    "report": 1000,
}
"""What a stage needs besides the model's weights, in MB; 300 of them for Snakemake, which runs with the job on a cluster.
Seen: 100 (export) to 800 (import with torch)."""

COPIES = 8
"""How many times the weights may be in memory at once: the file, the converted copies, constants of the compiler."""

OF_A_MODEL = (
    "import",
    "reference",
    "transform",
    "choose_layout",
    "extract",
    "build",
    "export",
    "attest",
    "deploy",
    "validate",
    "benchmark",
)
"""The stages that hold a model's weights."""

MINUTES = {
    "import": 20,
    "reference": 60,
    "transform": 20,
    "choose_layout": 60,
    "extract": 20,
    "budget": 10,
    "tune": 30,
    "pick_best": 60,
    "build": 40,
    "export": 10,
    "attest": 10,
    "deploy": 20,
    "validate": 30,
    "benchmark": 30,
    "report": 20,
}
"""How long a stage may take besides what grows with the model, the trials and the device's own limits."""

MB_A_MINUTE = 20
"""Weights for which a stage may take a minute more."""

SECONDS_A_TRIAL = 10
"""How long one candidate may take on average, all its steps included; 1 to 3 were seen."""

LAYOUT_KERNELS = 30
"""How many searches of ``layout_trials`` candidates choosing a layout may take: its kernels in each layout."""

ON_DEVICE = ("choose_layout", "tune", "pick_best", "deploy", "validate", "benchmark")
"""The stages that use a target's device."""


class Needs:
    """The needs of a plan's jobs, as functions of a job's wildcards that rules can name.

    Args:
        cores: of this machine, as far as Snakemake may use them.
        on_cluster: whether jobs are sent to other machines; asked when a job's needs are.
    """

    def __init__(self, plan: Plan, cores: int | None, on_cluster: Callable[[], bool]):
        self._plan = plan
        self._cores = max(1, cores or 1)
        self._on_cluster = on_cluster
        self._devices: dict[str, DeviceConfig] = {}
        self._weights: dict[str, int] = {}

    def memory_mb(self, stage: str) -> Callable[[Any, int], int]:
        """Memory in MB; more with each attempt, for profiles that try killed jobs again."""

        def memory_mb(wildcards: Any, attempt: int) -> int:
            weights = self._weights_mb(wildcards.model) if stage in OF_A_MODEL else 0
            return (MEMORY_MB[stage] + COPIES * weights) * attempt

        return memory_mb

    def minutes(self, stage: str, trials: Callable[[Any], int] | None = None) -> Callable[[Any, int], int]:
        """Time limit in minutes; more with each attempt.

        Args:
            trials: candidates that a job of the stage measures.
        """

        def minutes(wildcards: Any, attempt: int) -> int:
            seconds = 60 * MINUTES[stage] + SECONDS_A_TRIAL * (trials(wildcards) if trials else 0)
            if stage in OF_A_MODEL:
                seconds += 60 * self._weights_mb(wildcards.model) // MB_A_MINUTE
            if stage in ON_DEVICE:
                device = self._device(wildcards.target)
                seconds += device.timeout_s + device.wait_s
                seconds += device.conditioning.wait_s if device.conditioning else 0
            if stage == "choose_layout":
                options = self._plan.tuning(wildcards.target, wildcards.model)
                seconds += SECONDS_A_TRIAL * options.layout_trials * LAYOUT_KERNELS
            if stage == "benchmark":
                seconds += self._plan.measurement(wildcards.model).min_duration_s
            return math.ceil(seconds / 60) * attempt

        return minutes

    def threads(self, stage: str) -> Callable[[Any], int]:
        """Cores to keep free of other jobs.

        A benchmark on this machine takes all of it. Jobs that tune on this machine wait for each other by themselves.
        On a cluster both take a whole node, which is taken to have as many cores as this machine unless
        ``devices.<name>.threads`` says otherwise.
        """

        def threads(wildcards: Any) -> int:
            device = self._device(wildcards.target)
            if device.via != "local":
                return 1
            if self._on_cluster():
                return device.threads or self._cores
            return self._cores if stage == "benchmark" else 1

        return threads

    def gres(self, wildcards: Any) -> str:
        """The generic resource that stands for a target's device on a Slurm cluster; empty when there is none."""
        return self._device(wildcards.target).gres or ""

    def slurm_extra(self, wildcards: Any) -> str:
        """What only Slurm's ``sbatch`` understands: a node to itself for what is timed on the node's own cores."""
        return "--exclusive" if self._device(wildcards.target).via == "local" else ""

    def _device(self, target: str) -> DeviceConfig:
        if target not in self._devices:
            self._devices[target] = self._plan.config.device(self._plan.device_of(target) or "local")
        return self._devices[target]

    def _weights_mb(self, model: str) -> int:
        if model not in self._weights:
            self._weights[model] = self._given_bytes(model)
        # Code that builds a network is small; what it built is known once it has been imported.
        imported = self._plan.file("imported_params", model=model)
        try:
            return max(self._weights[model], os.stat(imported).st_size) // 1_000_000  # noqa: PTH116  # of every job
        except FileNotFoundError:
            return self._weights[model] // 1_000_000

    def _given_bytes(self, model: str) -> int:
        files = (Path(file) for file in self._plan.model_files(model))
        return sum(file.stat().st_size for file in files if file.is_file())


def needs_of(plan: Plan, workflow: Any) -> Needs:
    """The needs of a plan's jobs in a Snakemake workflow."""
    cores = workflow.resource_settings.cores or os.cpu_count()
    # How jobs are run, Snakemake decides only after it has read the rules.
    return Needs(plan, cores, on_cluster=lambda: workflow.remote_exec or not workflow.local_exec)
