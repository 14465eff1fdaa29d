"""Turn the end of a cluster's job into tvmake's errors, from the cluster's message to Snakemake and the job's log."""

import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tvmake.errors import MachineError

TAIL_BYTES = 20_000
"""Part of a log that is searched. Slurm writes its messages at the end."""

LOG_WAIT_S = 5.0
"""Time that a network file system may need to show a log, in seconds."""


def unreachable(message: str) -> MachineError:
    """The error if the cluster's controller does not answer."""
    return MachineError(
        "slurm", f"its controller does not answer ({message})", "see `scontrol ping`; try again when Slurm is up"
    )


def _out_of_memory(where: str, rule: str, match: re.Match[str]) -> MachineError:
    limit = f" {int(match['limit']) // 2**20} MB" if match.groupdict().get("limit") else " limit"
    return MachineError(
        where,
        f"killed by the cluster: it used more memory than its{limit}",
        f"request more memory: --set-resources {rule}:mem_mb=8000 (docs/guides/slurm.md)",
    )


def _out_of_time(where: str, rule: str, _: re.Match[str]) -> MachineError:
    return MachineError(
        where,
        "stopped by the cluster at its time limit",
        f"request more minutes: --set-resources {rule}:runtime=120 (docs/guides/slurm.md)",
    )


def _cause(problem: str, remedy: str) -> Callable[[str, str, re.Match[str]], MachineError]:
    return lambda where, rule, _: MachineError(where, problem, remedy.replace("RULE", rule))


CAUSES: tuple[tuple[re.Pattern[str], Callable[[str, str, re.Match[str]], MachineError]], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), tell)
    for pattern, tell in (
        (r"exceeded memory limit \(\d+ > (?P<limit>\d+)\)", _out_of_memory),
        (r"exceeded job memory limit|oom[-_ ]kill|'OUT_OF_MEMORY'|TERM_MEMLIMIT", _out_of_memory),
        (r"due to time limit|'(?:TIMEOUT|DEADLINE)'|TERM_RUNLIMIT", _out_of_time),
        (
            r"due to (?:preemption|node failure)|'(?:PREEMPTED|NODE_FAIL|BOOT_FAIL)'",
            _cause("lost: its node failed or was preempted", "run the same command again; finished jobs are kept"),
        ),
        (
            r"invalid partition",
            _cause("the cluster has no such partition", "`sinfo` lists them: --default-resources slurm_partition=NAME"),
        ),
        (
            r"invalid generic resource|invalid gres",
            _cause("the cluster does not know its generic resource", "see devices.<name>.gres, and `sinfo -o '%N %G'`"),
        ),
        (
            r"invalid account",
            _cause(
                "the cluster refuses the account", "name one of your accounts: --default-resources slurm_account=NAME"
            ),
        ),
        (
            r"time limit .*(?:invalid|exceed)|PartitionTimeLimit",
            _cause(
                "it requests more time than the partition allows",
                "request fewer minutes (--set-resources RULE:runtime=60) or another partition",
            ),
        ),
        (
            r"node configuration is not available|memory specification can not be satisfied|more processors requested"
            r"|CPU count per node can not be satisfied",
            _cause(
                "no node has the requested resources",
                "`sinfo -N -l` lists the nodes: --set-resources RULE:mem_mb=…, --set-threads RULE=…",
            ),
        ),
        (
            r"unable to contact slurm controller|unable to establish configuration source|zero bytes were transmitted",
            lambda _where, _rule, match: unreachable(match[0]),
        ),
        (
            r"sbatch: (?:command )?not found",
            _cause("no `sbatch` on the path", "run this on a login node, where Slurm's commands work"),
        ),
        (
            r"cancelled at|'CANCELLED'",
            _cause("cancelled (`scancel`, or by an administrator)", "run the same command again"),
        ),
    )
)


def cluster_error(where: str, rule: str, message: str, logs: Sequence[Path]) -> MachineError | None:
    """Return why a job failed, if the cluster is the reason; else None.

    Args:
        where: the job, as shown to the user.
        message: the executor's message.
        logs: the cluster's logs of the job, not the rule's.
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
            f"left no log in {Path.cwd()}: its node cannot see this directory or cannot write to it",
            "run in a directory that all nodes share (--directory); see docs/guides/slurm.md",
        )
    return None


def wait_for(logs: Sequence[Path]) -> None:
    """Wait until a network file system shows the logs."""
    end = time.monotonic() + LOG_WAIT_S
    while logs and not any(log.exists() for log in logs) and time.monotonic() < end:
        time.sleep(0.2)
        for log in logs:
            if log.parent.is_dir():
                os.listdir(log.parent)  # noqa: PTH208  # listing asks the server; a lookup of one file is cached


def _tail(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
