#!/usr/bin/env python3
"""Create a Kubernetes Job for one of Snakemake's job scripts, and print its name: submit.py JOBSCRIPT

Needs kubectl, and TVMAKE_IMAGE, TVMAKE_K8S_CLAIM and TVMAKE_K8S_MOUNT in the environment. The job's resources are
in the script's first lines, written by Snakemake.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

KEPT_S = 24 * 3600
"""Time that Kubernetes keeps a finished job with its state and output, in seconds."""


def manifest(properties: dict[str, Any], script: str, directory: str, environment: dict[str, str]) -> dict[str, Any]:
    """Return the Job that runs a script in a directory of the shared volume.

    Args:
        properties: Snakemake's properties of the job.
        environment: has the three variables for image and volume; variables that start with TVMAKE_ are passed to the job.
    """
    resources = properties["resources"]
    amounts = {"memory": f"{resources['mem_mb']}M", "cpu": str(resources.get("_cores", properties.get("threads", 1)))}
    limits = {"memory": amounts["memory"]}
    if gres := resources.get("gres"):
        # `phone:2` is two of the extended resource tvmake/phone.
        name, _, count = gres.partition(":")
        limits[f"tvmake/{name}"] = amounts[f"tvmake/{name}"] = count.rpartition(":")[2] or "1"
    container = {
        "name": "job",
        "image": environment["TVMAKE_IMAGE"],
        "command": ["/bin/sh", script],
        "workingDir": directory,
        "env": [{"name": key, "value": text} for key, text in environment.items() if key.startswith("TVMAKE_")],
        "resources": {"requests": amounts, "limits": limits},
        "volumeMounts": [{"name": "shared", "mountPath": environment["TVMAKE_K8S_MOUNT"]}],
    }
    volume = {"name": "shared", "persistentVolumeClaim": {"claimName": environment["TVMAKE_K8S_CLAIM"]}}
    label = re.sub(r"[^a-z0-9-]+", "-", str(properties.get("rule") or properties.get("groupid") or "job").lower())
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"generateName": f"tvmake-{label.strip('-')}-", "labels": {"app": "tvmake"}},
        "spec": {
            # Snakemake itself retries with more memory.
            "backoffLimit": 0,
            "activeDeadlineSeconds": 60 * int(resources["runtime"]),
            "ttlSecondsAfterFinished": KEPT_S,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container], "volumes": [volume]}},
        },
    }


def main(script: str) -> int:
    """Create the Job."""
    missing = [name for name in ("TVMAKE_IMAGE", "TVMAKE_K8S_CLAIM", "TVMAKE_K8S_MOUNT") if not os.environ.get(name)]
    if missing:
        print(
            f"error: kubernetes: {missing[0]} is not set\n  see docs/guides/cluster.md",
            file=sys.stderr,
        )
        return 3
    line = next(line for line in Path(script).read_text().splitlines() if line.startswith("# properties = "))
    wanted = manifest(json.loads(line.partition(" = ")[2]), script, str(Path.cwd()), dict(os.environ))
    created = subprocess.run(
        ["kubectl", "create", "--output", "jsonpath={.metadata.name}", "--filename", "-"],
        input=json.dumps(wanted),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    print(created.stdout.strip())
    return created.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
