#!/usr/bin/env python3
"""The commands of LSF that Snakemake's plugin calls, done on this machine: the name it is called by decides.

A job is a process; LSF's report about its end follows its output, as in LSF. A file `limit` ends jobs as LSF does: its content is
`TERM_RUNLIMIT` or `TERM_MEMLIMIT`.
"""

import os
import subprocess
import sys
from pathlib import Path

JOBS = Path(os.environ["LSF_STAND_IN"])

RUN = """
if [ -e limit ]; then echo "$(cat limit): job killed" >> "$2"; echo EXIT > "$1.state"; exit; fi
echo RUN > "$1.state"
if sh -c "$3" >> "$2" 2>&1; then echo DONE > "$1.state"; else echo EXIT > "$1.state"; fi
"""


def submit(arguments: list[str]) -> None:
    """``bsub``: start a job, and print its number as LSF does."""
    number = str(len(list(JOBS.glob("*.options"))) + 1)
    (JOBS / f"{number}.options").write_text("\n".join(arguments))
    log, directory = arguments[arguments.index("-o") + 1], arguments[arguments.index("-cwd") + 1]
    subprocess.Popen(
        ["sh", "-c", RUN, "sh", str(JOBS / number), log, arguments[-1]],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    print(f"Job <{number}> is submitted to default queue <normal>.")


def main(command: str, arguments: list[str]) -> None:
    """The commands."""
    match command:
        case "bsub":
            submit(arguments)
        case "bjobs":
            for file in JOBS.glob("*.state"):
                print(file.stem, file.read_text().strip() or "RUN")
        case "badmin":
            print(f"MBD configuration\n    LSB_SHAREDIR = {JOBS}\n    LSF_CONFDIR = {JOBS}")
            print("    LSF_UNIT_FOR_LIMITS = MB")
        case "lsclusters":
            print("CLUSTER_NAME STATUS MASTER_HOST ADMIN HOSTS SERVERS\nhere ok here root 1 1")


if __name__ == "__main__":
    main(Path(sys.argv[0]).name, sys.argv[1:])
