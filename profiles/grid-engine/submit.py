#!/usr/bin/env python3
"""Submit one of Snakemake's job scripts to Grid Engine, and print its number: submit.py JOBSCRIPT

The job's resources are in the script's first lines, written by Snakemake.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LOGS = Path(".snakemake/cluster")

ADDRESS_SPACE_MB = 4_000
"""Address space that the libraries of a job map beyond the memory it uses, in MB. h_vmem limits the address space."""


def options(properties: Mapping[str, Any], environment: Mapping[str, str]) -> list[str]:
    """Return the options of qsub for a job.

    Args:
        properties: Snakemake's properties of the job.
        environment: may have the variables of config.yaml.
    """
    resources = properties["resources"]
    cores = int(resources.get("_cores", properties.get("threads", 1)))
    chosen = ["-l", f"h_rt={60 * int(resources['runtime'])}"]
    memory = environment.get("TVMAKE_SGE_MEMORY", "h_vmem")
    if memory != "none":
        # Grid Engine multiplies requests by the slots of a parallel environment.
        total_mb = int(resources["mem_mb"]) + (ADDRESS_SPACE_MB if memory == "h_vmem" else 0)
        chosen += ["-l", f"{memory}={-(-total_mb // cores)}M"]
    if cores > 1:
        chosen += ["-pe", environment.get("TVMAKE_SGE_PE", "smp"), str(cores)]
    if gres := resources.get("gres"):
        name, _, count = gres.partition(":")
        chosen += ["-l", f"{name}={count.rpartition(':')[2] or '1'}"]
    return chosen + shlex.split(environment.get("TVMAKE_SGE_OPTIONS", ""))


def main(script: str) -> int:
    """Submit the job."""
    if shutil.which("qsub") is None:
        print(
            "error: grid engine: no `qsub` on the path\n  run this where it works, or without --profile grid-engine",
            file=sys.stderr,
        )
        return 3
    LOGS.mkdir(parents=True, exist_ok=True)
    line = next(line for line in Path(script).read_text().splitlines() if line.startswith("# properties = "))
    properties = json.loads(line.partition(" = ")[2])
    name = re.sub(r"\W+", "-", str(properties.get("rule") or properties.get("groupid") or "job"))
    # Grid Engine does not pass PATH; the job's shell needs the one of this command.
    command = ["qsub", "-terse", "-cwd", "-V", "-N", f"tvmake-{name}", "-j", "y", "-o", f"{LOGS}/$JOB_ID.log"]
    command += [*options(properties, os.environ), "-b", "y", "-shell", "n"]
    command += ["/bin/sh", str(Path(__file__).resolve().with_name("job.sh")), str(LOGS), script]
    submitted = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    print(submitted.stdout.strip())
    return submitted.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
