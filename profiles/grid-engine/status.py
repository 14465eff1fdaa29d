#!/usr/bin/env python3
"""Print running, success or failed for a job's number, as Snakemake expects, and write why it failed into its log: status.py NUMBER

The job itself writes its exit code (job.sh), so accounting is needed only for the reason why Grid Engine killed a job.
"""

import re
import subprocess
import sys
import time
from pathlib import Path

LOGS = Path(".snakemake/cluster")

PATIENCE_S = 60
"""Time that the exit code of a job may need to appear on a network file system, in seconds."""

UNITS = {
    "": 1,
    "B": 1,
    "K": 2**10,
    "KB": 2**10,
    "M": 2**20,
    "MB": 2**20,
    "G": 2**30,
    "GB": 2**30,
    "T": 2**40,
    "TB": 2**40,
}


def output_of(*command: str) -> tuple[int, str]:
    """The exit code of a command, and its output."""
    finished = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return finished.returncode, finished.stdout


def amount(text: str) -> float:
    """Grid Engine's ``3.254MB`` as a number of bytes, and ``5`` as 5."""
    match = re.fullmatch(r"([\d.]+)([KMGT]?B?)", text.strip(), re.IGNORECASE)
    return float(match[1]) * UNITS[match[2].upper()] if match else 0.0


def reason(record: str) -> str:
    """Why Grid Engine ended a job, in the words that tvmake looks for; empty if it did not.

    Args:
        record: the output of ``qacct -j``.
    """
    facts = dict(line.split(None, 1) for line in record.splitlines() if len(line.split(None, 1)) == 2)
    failed, category = facts.get("failed", "0"), facts.get("category", "")
    limits = dict(re.findall(r"(h_rt|h_vmem)=([^,\s]+)", category))
    cores = int(next(iter(re.findall(r"-pe \S+ (\d+)", category)), 1))
    if "h_rt" in failed or failed.startswith(("37", "100")):
        limit, used = cores * amount(limits.get("h_vmem", "0")), amount(facts.get("maxvmem", "0"))
        if limit and used > 0.95 * limit:
            return f"exceeded memory limit ({used:.0f} > {limit:.0f})"
        if "h_rt" in limits and amount(facts.get("ru_wallclock", "0").rstrip("s")) >= amount(limits["h_rt"]):
            return "killed due to time limit"
    if failed.split()[0] in ("0", "100"):
        return ""
    return f"ended by Grid Engine: failed {failed}"


def status(number: str) -> str:
    """The state of a job."""
    ended, missing = LOGS / f"{number}.exit", LOGS / f"{number}.missing"
    if ended.exists() and (code := ended.read_text().strip()):
        return "success" if code == "0" else "failed"
    code, known = output_of("qstat", "-j", number)
    if code == 0:
        if not re.search(r"^error reason", known, re.MULTILINE):
            return "running"
        output_of("qdel", number)
        record = known
    elif "do not exist" not in known:
        return "running"  # Grid Engine does not answer for a moment
    else:
        code, record = output_of("qacct", "-j", number)
        if code:
            missing.touch() if not missing.exists() else None
            if time.time() - missing.stat().st_mtime < PATIENCE_S:
                return "running"
            record = ""
    if cause := reason(record):
        with (LOGS / f"{number}.log").open("a") as log:
            log.write(f"\n{cause}\n")
    return "failed"


if __name__ == "__main__":
    print(status(sys.argv[1]))
