"""Check that the cluster is reachable and has what a run names, before the first job is submitted."""

import argparse
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tvmake.engine import shared_stores
from tvmake.engine.progress.cluster_errors import unreachable
from tvmake.errors import InputError, MachineError, TvmakeError, UsageError
from tvmake.records.store import open_store

if TYPE_CHECKING:
    from tvmake.plan.plan import Plan

COMMANDS = {
    "slurm": ("sbatch", "squeue", "scancel", "sinfo"),
    "lsf": ("bsub", "bjobs", "bkill", "badmin", "lsclusters"),
}
"""Commands that Snakemake's plugin for a cluster calls."""

ANSWER_S = 60
"""Time limit for an answer of Slurm's controller, in seconds."""


def check_cluster(arguments: argparse.Namespace, plan: "Plan") -> TvmakeError | None:
    """Return why the cluster that Snakemake uses cannot run this plan; None if it can.

    Args:
        arguments: Snakemake's parsed arguments.

    Raises:
        MachineError: the records store cannot be written.
    """
    if arguments.executor in (None, "local"):
        return None
    shared_stores.announce(_stores(plan))
    if arguments.executor == "slurm":
        return check_slurm(_partitions(arguments), _gres(plan))
    return missing_command(arguments.executor)


def missing_command(executor: str) -> MachineError | None:
    """Return the error if a cluster's commands are missing on this machine."""
    missing = [command for command in COMMANDS.get(executor, ()) if shutil.which(command) is None]
    if not missing:
        return None
    remedy = f"run this on a login node, where {'Slurm' if executor == 'slurm' else 'LSF'}'s commands work, or without --profile {executor}"
    return MachineError(executor, f"no `{missing[0]}` on the path", remedy)


def check_slurm(partitions: Iterable[str], gres: dict[str, str]) -> TvmakeError | None:
    """Return why this machine's Slurm cannot run jobs with these partitions and generic resources.

    Args:
        gres: generic resources by the device that needs them.
    """
    if (missing := missing_command("slurm")) is not None:
        return missing
    try:
        result = subprocess.run(
            ["sinfo", "--noheader", "--format=%R|%G"], capture_output=True, text=True, timeout=ANSWER_S, check=False
        )
    except subprocess.TimeoutExpired:
        return unreachable(f"no answer within {ANSWER_S} s")
    if result.returncode:
        return unreachable(" ".join(result.stderr.split())[:200])
    known = [line.partition("|")[::2] for line in result.stdout.splitlines()]
    return _unknown_partition(partitions, {name for name, _ in known}) or _unknown_gres(
        gres, [gres for _, gres in known]
    )


def _unknown_partition(requested: Iterable[str], known: set[str]) -> TvmakeError | None:
    for partition in requested:
        if partition not in known:
            return UsageError(
                "slurm",
                f"no partition '{partition}'",
                f"this cluster has {', '.join(sorted(known)) or 'none'}: --default-resources slurm_partition=NAME",
            )
    return None


def _unknown_gres(requested: dict[str, str], known: Iterable[str]) -> TvmakeError | None:
    available = sorted(
        {name for line in known for name in re.findall(r"(?:^|,)([A-Za-z0-9_]+)", line) if name != "null"}
    )
    for device, gres in requested.items():
        if gres.partition(":")[0] not in available:
            has = f"this cluster has {', '.join(available)}" if available else "this cluster has none"
            return InputError(
                f"devices.{device}.gres",
                f"no node has the generic resource '{gres.partition(':')[0]}'",
                f"{has}; name one of them, or define the resource in slurm.conf (docs/guides/slurm.md)",
            )
    return None


def _stores(plan: "Plan") -> list[Path]:
    tuned = dict.fromkeys(variant.target for variant in plan.variants if plan.context(variant).is_tuned)
    return list(dict.fromkeys(open_store(plan.context({"target": target}).tuning.store).root for target in tuned))


def _gres(plan: "Plan") -> dict[str, str]:
    names = dict.fromkeys(plan.context(variant).device_name or "" for variant in plan.runnable)
    devices = {name: plan.config.device(name) for name in names}
    return {name: device.gres for name, device in devices.items() if device.gres}


def _partitions(arguments: argparse.Namespace) -> list[str]:
    """The partitions that options and profiles name. Snakemake stores a resource's text as ``raw``."""
    partitions: list[str] = []
    for resources in (arguments.default_resources, *(arguments.set_resources or {}).values()):
        resource = getattr(resources, "parsed", resources or {}).get("slurm_partition")
        text = str(getattr(resource, "raw", "") or "").strip("'\"")
        # Other texts are expressions that only a job can evaluate.
        if re.fullmatch(r"[\w.-]+", text):
            partitions.append(text)
    return list(dict.fromkeys(partitions))
