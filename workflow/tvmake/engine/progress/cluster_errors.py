"""How a cluster's job ended, in tvmake's words: from what the cluster told Snakemake and what stands in the job's log."""

import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tvmake.errors import MachineError

TAIL_BYTES = 20_000
"""How much of a log is looked at; Slurm's own words stand at its end."""

LOG_WAIT_S = 5.0
"""How long a log may take to show up over a network file system."""


def unreachable(message: str) -> MachineError:
    """The cluster's controller does not answer."""
    return MachineError(
        "slurm", f"its controller does not answer ({message})", "see `scontrol ping`; try again when Slurm is up"
    )


def _out_of_memory(where: str, rule: str, match: re.Match[str]) -> MachineError:
    limit = f" {int(match['limit']) // 2**20} MB" if match.groupdict().get("limit") else " limit"
    return MachineError(
        where,
        f"killed by the cluster: it used more memory than its{limit}",
        f"ask for more: --set-resources {rule}:mem_mb=8000 (docs/guides/slurm.md)",
    )


def _out_of_time(where: str, rule: str, _: re.Match[str]) -> MachineError:
    return MachineError(
        where,
        "ended by the cluster at its time limit",
        f"ask for more minutes: --set-resources {rule}:runtime=120 (docs/guides/slurm.md)",
    )


def _told(problem: str, remedy: str) -> Callable[[str, str, re.Match[str]], MachineError]:
    return lambda where, rule, _: MachineError(where, problem, remedy.replace("RULE", rule))


CAUSES: tuple[tuple[re.Pattern[str], Callable[[str, str, re.Match[str]], MachineError]], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), tell)
    for pattern, tell in (
        (r"exceeded memory limit \(\d+ > (?P<limit>\d+)\)", _out_of_memory),
        (r"exceeded job memory limit|oom[-_ ]kill|'OUT_OF_MEMORY'", _out_of_memory),
        (r"due to time limit|'(?:TIMEOUT|DEADLINE)'", _out_of_time),
        (
            r"due to (?:preemption|node failure)|'(?:PREEMPTED|NODE_FAIL|BOOT_FAIL)'",
            _told("lost: its node failed or was taken away", "run the same command again; what is finished is kept"),
        ),
        (
            r"invalid partition",
            _told("the cluster has no such partition", "`sinfo` lists them: --default-resources slurm_partition=NAME"),
        ),
        (
            r"invalid generic resource|invalid gres",
            _told("the cluster does not know its generic resource", "see devices.<name>.gres, and `sinfo -o '%N %G'`"),
        ),
        (
            r"invalid account",
            _told("the cluster refuses the account", "name one of yours: --default-resources slurm_account=NAME"),
        ),
        (
            r"time limit .*(?:invalid|exceed)|PartitionTimeLimit",
            _told(
                "it asks for more time than the partition allows",
                "ask for fewer minutes (--set-resources RULE:runtime=60), or for another partition",
            ),
        ),
        (
            r"node configuration is not available|memory specification can not be satisfied|more processors requested"
            r"|CPU count per node can not be satisfied",
            _told(
                "no node has what it asks for",
                "`sinfo -N -l` says what there is: --set-resources RULE:mem_mb=…, --set-threads RULE=…",
            ),
        ),
        (
            r"unable to contact slurm controller|unable to establish configuration source|zero bytes were transmitted",
            lambda _where, _rule, match: unreachable(match[0]),
        ),
        (
            r"sbatch: (?:command )?not found",
            _told("no `sbatch` on the path", "start this where Slurm's commands work (a login node)"),
        ),
        (
            r"cancelled at|'CANCELLED'",
            _told("cancelled (`scancel`, or by an administrator)", "run the same command again"),
        ),
    )
)


def cluster_error(where: str, rule: str, message: str, logs: Sequence[Path]) -> MachineError | None:
    """Why a job failed, as far as the cluster knows; None when the reason is the job's own.

    Args:
        where: the job, as the user knows it.
        message: what the executor reported.
        logs: the cluster's own logs of the job, not those of the rule.
    """
    wait_for(logs)
    texts = [message, *(_tail(log) for log in logs)]
    for text in texts:
        for pattern, tell in CAUSES:
            if match := pattern.search(text):
                return tell(where, rule, match)
    if logs and not any(log.exists() for log in logs):
        return MachineError(
            where,
            f"left no log in {Path.cwd()}: its node does not see this directory, or cannot write to it",
            "work in a directory that all nodes share (--directory); docs/guides/slurm.md says how to try it",
        )
    return None


def wait_for(logs: Sequence[Path]) -> None:
    """Give logs the time that a network file system may need to show them."""
    end = time.monotonic() + LOG_WAIT_S
    while logs and not any(log.exists() for log in logs) and time.monotonic() < end:
        time.sleep(0.2)
        for log in logs:
            if log.parent.is_dir():
                os.listdir(log.parent)  # noqa: PTH208  # asks the server, where a look for one file is answered from memory


def _tail(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
