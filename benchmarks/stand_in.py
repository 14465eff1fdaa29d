"""A stand-in for ``tvmake step`` that does no work, for projects in the state that real runs leave.

The real Snakefile runs; only what a job does is pretended. Records of jobs, which the real steps write, are added.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import chdir
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

from comparing import SCRIPTS, environment

if TYPE_CHECKING:
    import resource

PROGRAM = r"""#!/bin/sh
# Makes the files that a step declares, after a while: what is given for one, or an empty one.
eval "sleep \${STAND_IN_$2:-0}"
test -p /dev/stdin && cat >/dev/null
file() { if test -f "$STAND_IN/$1"; then cp "$STAND_IN/$1" "$1"; else : >"$1"; fi; }
directory() { mkdir -p "$1"; if test -d "$STAND_IN/$1"; then cp "$STAND_IN/$1"/* "$1"; fi; }
stage=$2
while test $# -gt 0; do
  case "$stage $1" in
@
  esac
  shift
done
"""


def prepare(project: Path) -> Path:
    """Put the program, and a summary that it gives out, into a project; returns the directory of what it gives out."""
    from tvmake.artifact import stage_json
    from tvmake.report.rows import summarise

    stand_in = project / "stand-in"
    stage_json.save(summarise([]), stand_in / "results" / "summary.json")
    program = stand_in / "bin" / "tvmake"
    program.parent.mkdir()
    program.write_text(PROGRAM.replace("@", "\n".join(_outputs())))
    program.chmod(0o755)
    return stand_in


def _outputs() -> Iterator[str]:
    """Branches of the program: what each option names that a stage writes to."""
    from tvmake.stages.registry import stages

    for stage in stages().values():
        kinds = {output.parameter: output.is_directory for output in stage.outputs}
        kinds |= {log.parameter: False for log in stage.logs if log.parameter}
        for option, is_directory in kinds.items():
            yield f"    '{stage.name} --{option.replace('_', '-')}') {'directory' if is_directory else 'file'} \"$2\"; shift ;;"


def make(project: Path, cores: int, seconds: Mapping[str, float]) -> tuple[int, float, "resource.struct_rusage"]:
    """Make a project from nothing; a failure ends the benchmark.

    Args:
        seconds: how long each stage takes; nothing, where it is not named.

    Returns:
        The number of jobs, wall seconds, and usage.
    """
    env = environment(STAND_IN=str(project / "stand-in"))
    env["PATH"] = os.pathsep.join([str(project / "stand-in" / "bin"), env["PATH"]])
    env.update({f"STAND_IN_{stage}": f"{value:.4f}" for stage, value in seconds.items()})
    began = time.perf_counter()
    command = [str(SCRIPTS / "tvmake"), "make", "--cores", str(cores), "--no-warm"]
    process = subprocess.Popen(
        command, cwd=project, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    output = process.stdout.read() if process.stdout else ""
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"the project in {project} could not be made:\n{output[-4000:]}")
    return output.count("✓ "), time.perf_counter() - began, usage


def add_job_records(project: Path) -> None:
    """Write the records that the real steps leave: what each job read and made."""
    from tvmake.config.reading.load import load
    from tvmake.engine.up_to_date.scope import jobs_of
    from tvmake.plan.plan import Plan
    from tvmake.storage.notes.job_records import Invocation, record_job

    # Nobody needs them after a power cut, and thousands of flushes to a disk take minutes.
    with chdir(project), patch("os.fsync"):
        plan = Plan(load([Path("tvmake.yaml")]))
        for job in jobs_of(plan, plan.variants):
            read = [Path(name) for name in job.inputs if name not in job.untimed]
            parameters = {name: str(value) for name, value in job.parameters.items()}
            invocation = Invocation(job.options, parameters, plan.roots(job.stage, job.wildcards))
            with record_job(read, map(Path, job.outputs), invocation):
                pass
