"""Is the cluster there, and does it have what this run names? Asked before the first job is sent."""

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

COMMANDS = ("sbatch", "squeue", "scancel", "sinfo")
ANSWER_S = 60
"""How long Slurm's controller may take to answer."""


def check_cluster(arguments: argparse.Namespace, plan: "Plan") -> TvmakeError | None:
    """Why the cluster that Snakemake is to use cannot run this plan; None when nothing speaks against it.

    Args:
        arguments: Snakemake's own, parsed.

    Raises:
        MachineError: the records store cannot be written.
    """
    if arguments.executor in (None, "local"):
        return None
    shared_stores.announce(_stores(plan))
    return check_slurm(_partitions(arguments), _gres(plan)) if arguments.executor == "slurm" else None


def check_slurm(partitions: Iterable[str], gres: dict[str, str]) -> TvmakeError | None:
    """Why this machine's Slurm cannot run jobs with these partitions and generic resources.

    Args:
        gres: by the device that asks for it.
    """
    missing = [command for command in COMMANDS if shutil.which(command) is None]
    if missing:
        return MachineError(
            "slurm",
            f"no `{missing[0]}` on the path",
            "start this where Slurm's commands work (a login node), or without --profile slurm",
        )
    try:
        done = subprocess.run(
            ["sinfo", "--noheader", "--format=%R|%G"], capture_output=True, text=True, timeout=ANSWER_S, check=False
        )
    except subprocess.TimeoutExpired:
        return unreachable(f"no answer within {ANSWER_S} s")
    if done.returncode:
        return unreachable(" ".join(done.stderr.split())[:200])
    known = [line.partition("|")[::2] for line in done.stdout.splitlines()]
    return _unknown_partition(partitions, {name for name, _ in known}) or _unknown_gres(
        gres, [gres for _, gres in known]
    )


def _unknown_partition(wanted: Iterable[str], known: set[str]) -> TvmakeError | None:
    for partition in wanted:
        if partition not in known:
            return UsageError(
                "slurm",
                f"no partition '{partition}'",
                f"this cluster has {', '.join(sorted(known)) or 'none'}: --default-resources slurm_partition=NAME",
            )
    return None


def _unknown_gres(wanted: dict[str, str], known: Iterable[str]) -> TvmakeError | None:
    there = sorted({name for line in known for name in re.findall(r"(?:^|,)([A-Za-z0-9_]+)", line) if name != "null"})
    for device, gres in wanted.items():
        if gres.partition(":")[0] not in there:
            has = f"this cluster has {', '.join(there)}" if there else "this cluster has none"
            return InputError(
                f"devices.{device}.gres",
                f"no node has the generic resource '{gres.partition(':')[0]}'",
                f"{has}; name one of them, or ask for the resource in slurm.conf (docs/guides/slurm.md)",
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
    """Every partition that options and profiles name; Snakemake keeps a resource's text as ``raw``."""
    found: list[str] = []
    for resources in (arguments.default_resources, *(arguments.set_resources or {}).values()):
        resource = getattr(resources, "parsed", resources or {}).get("slurm_partition")
        text = str(getattr(resource, "raw", "") or "").strip("'\"")
        # Anything else is an expression that only a job has a value for.
        if re.fullmatch(r"[\w.-]+", text):
            found.append(text)
    return list(dict.fromkeys(found))
