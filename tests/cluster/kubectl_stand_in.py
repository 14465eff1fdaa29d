#!/usr/bin/env python3
"""What profiles/kubernetes asks of kubectl, done on this machine: a Job's container is a process, its volume this disk.

As in a pod, the process has the container's environment and nothing else of this one's; PYTHONPATH represents what is
installed in the image.
"""

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

JOBS = Path(os.environ["KUBECTL_STAND_IN"])
IMAGE = {"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
RUN = 'sh -c \'"$@"\' - "$@" > "$0.log" 2>&1; echo $? > "$0.code"'


def create() -> None:
    """Start the one container of a Job read from standard input."""
    wanted = json.load(sys.stdin)
    name = wanted["metadata"]["generateName"] + uuid.uuid4().hex[:5]
    (JOBS / f"{name}.json").write_text(json.dumps(wanted))
    (container,) = wanted["spec"]["template"]["spec"]["containers"]
    subprocess.Popen(
        ["/bin/sh", "-c", RUN, str(JOBS / name), *container["command"]],
        cwd=container["workingDir"],
        env={**IMAGE, **{one["name"]: one["value"] for one in container["env"]}},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    print(name, end="")


def get(name: str) -> int:
    """How many of a Job's pods have succeeded, and failed."""
    if not (JOBS / f"{name}.json").exists():
        print(f'Error from server (NotFound): jobs.batch "{name}" not found', file=sys.stderr)
        return 1
    code = JOBS / f"{name}.code"
    text = code.read_text().strip() if code.exists() else ""
    print("/" if not text else "1/" if text == "0" else "/1", end="")
    return 0


def main(arguments: list[str]) -> int:
    """The commands that the profile uses."""
    match arguments:
        case ["create", *_]:
            create()
        case ["get", "job", name, *_]:
            return get(name)
        case ["logs", name, *_]:
            print((JOBS / f"{name.removeprefix('job/')}.log").read_text(), end="")
        case _:
            print(f"error: unknown command {arguments}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
