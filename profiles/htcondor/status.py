#!/usr/bin/env python3
"""Print running, success or failed for a job's number, as Snakemake expects, from its event log: status.py NUMBER

A job that HTCondor holds or removes has failed: it is removed, and the reason is written into its log.
"""

import re
import subprocess
import sys
from pathlib import Path

LOGS = Path(".snakemake/cluster")

TERMINATED, ABORTED, HELD = "005", "009", "012"
"""Numbers of events."""

MEMORY = re.compile(
    r"memory usage exceeded|over memory limit|memory limit of|exceeded.*\brequest_memory", re.IGNORECASE
)
DURATION = re.compile(r"allowed_?\s*execute\s*_?duration|allowed execute duration", re.IGNORECASE)


def read(events: str) -> tuple[str, str]:
    """The state of a job, and why HTCondor ended it in the words that tvmake looks for; empty if it did not.

    Args:
        events: the contents of its event log.
    """
    for event in reversed(re.split(r"^\.\.\.$", events, flags=re.MULTILINE)):
        number = event.strip()[:3]
        if number == TERMINATED:
            return ("success" if re.search(r"Normal termination \(return value 0\)", event) else "failed"), ""
        if number in (ABORTED, HELD):
            reason = " ".join(
                line.strip() for line in event.strip().splitlines()[1:] if not line.strip().startswith("Code ")
            )
            if MEMORY.search(reason):
                return "failed", f"exceeded job memory limit: {reason}"
            if DURATION.search(reason):
                return "failed", f"killed due to time limit: {reason}"
            return "failed", f"ended by HTCondor: {reason}"
    return "running", ""


def main(number: str) -> None:
    """Print the state of a job."""
    try:
        events = (LOGS / f"{number}.events").read_text(errors="replace")
    except OSError:
        events = ""  # not visible yet
    state, reason = read(events)
    if reason:
        with (LOGS / f"{number}.log").open("a") as log:
            log.write(f"\n{reason}\n")
        subprocess.run(["condor_rm", number], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    print(state)


if __name__ == "__main__":
    main(sys.argv[1])
