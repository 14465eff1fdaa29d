#!/usr/bin/env python3
"""Submit one of Snakemake's job scripts to HTCondor, and print its number: submit.py JOBSCRIPT

The job's resources are in the script's first lines, written by Snakemake.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LOGS = Path(".snakemake/cluster")


def description(properties: Mapping[str, Any], script: str, directory: str, environment: Mapping[str, str]) -> str:
    """Return the submit description of a job.

    Args:
        properties: Snakemake's properties of the job.
        directory: where the job runs, on every machine of the pool.
        environment: may have the variable of config.yaml.
    """
    resources = properties["resources"]
    name = re.sub(r"\W+", "-", str(properties.get("rule") or properties.get("groupid") or "job"))
    logs = f"{directory}/{LOGS}/$(Cluster)"
    lines = {
        "universe": "vanilla",
        "executable": "/bin/sh",
        "arguments": script,
        "initialdir": directory,
        "getenv": "true",
        "should_transfer_files": "no",
        "batch_name": f"tvmake-{name}",
        "output": f"{logs}.log",
        "error": f"{logs}.log",
        "log": f"{logs}.events",
        "request_memory": f"{int(resources['mem_mb'])}MB",
        "request_cpus": str(int(resources.get("_cores", properties.get("threads", 1)))),
        "allowed_execute_duration": str(60 * int(resources["runtime"])),
    }
    if gres := resources.get("gres"):
        # `phone:2` is two of the machine resource `phone`, which an administrator defines.
        device, _, count = gres.partition(":")
        lines[f"request_{device}"] = count.rpartition(":")[2] or "1"
    more = [line.strip() for line in environment.get("TVMAKE_HTCONDOR_OPTIONS", "").split(";") if line.strip()]
    return "\n".join([*(f"{key} = {text}" for key, text in lines.items()), *more, "queue", ""])


def main(script: str) -> int:
    """Submit the job."""
    if shutil.which("condor_submit") is None:
        print(
            "error: htcondor: no `condor_submit` on the path\n  run this where it works, or without --profile htcondor",
            file=sys.stderr,
        )
        return 3
    LOGS.mkdir(parents=True, exist_ok=True)
    line = next(line for line in Path(script).read_text().splitlines() if line.startswith("# properties = "))
    wanted = description(json.loads(line.partition(" = ")[2]), script, str(Path.cwd()), dict(os.environ))
    submitted = subprocess.run(
        ["condor_submit", "-terse", "-"], input=wanted, stdout=subprocess.PIPE, text=True, check=False
    )
    # It prints `12.0 - 12.0`.
    print(submitted.stdout.strip().partition(".")[0])
    return submitted.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
