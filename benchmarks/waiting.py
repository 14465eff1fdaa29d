"""What the process that schedules takes from the processor while its jobs run and others wait for them.

    python benchmarks/waiting.py [--jobs 300] [--seconds 10]

A workflow of its own makes so many quick files; then one job sleeps while another waits for the only core, as kernels wait for a
device. The processor time of the Snakemake process is read meanwhile: plain, and with what ``tvmake make`` changes of its
scheduling (tvmake.lean_scheduling).
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from comparing import environment, machine

WORKFLOW = """
rule all:
    input: "last", "waiting"

rule quick:
    output: "quick/{{number}}"
    shell: "touch {{output}}"

rule slow:
    input: expand("quick/{{number}}", number=range({jobs}))
    output: "{{name,last|waiting}}"
    shell: "sleep {seconds}; touch {{output}}"
"""

PLAIN = "import sys; from snakemake.cli import main; main(sys.argv[1:])"
LEAN = f"from tvmake.lean_scheduling import schedule_leanly; schedule_leanly(); {PLAIN}"
OPTIONS = ("--cores", "1", "--scheduler", "greedy", "--scheduler-greedy-omit-prioritize-by-temp-and-input")
SETTLED_S = 2.0


def share_of_a_core(program: str, jobs: int, seconds: float) -> float:
    """The part of a core that the process uses while it has nothing to do."""
    with tempfile.TemporaryDirectory() as place:
        here = Path(place)
        (here / "Snakefile").write_text(WORKFLOW.format(jobs=jobs, seconds=seconds + 2 * SETTLED_S))
        process = subprocess.Popen(
            [sys.executable, "-c", program, *OPTIONS],
            cwd=here,
            env=environment(),
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            while len(list(here.glob("quick/*"))) < jobs:
                time.sleep(0.1)
                if process.poll() is not None:
                    sys.exit(f"snakemake ended with {process.returncode}")
            time.sleep(SETTLED_S)
            before = sum(psutil.Process(process.pid).cpu_times()[:2])
            time.sleep(seconds)
            return (sum(psutil.Process(process.pid).cpu_times()[:2]) - before) / seconds
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=10)
    arguments = parser.parse_args()
    found = {
        name: round(share_of_a_core(program, arguments.jobs, arguments.seconds), 3)
        for name, program in {"snakemake": PLAIN, "tvmake make": LEAN}.items()
    }
    for name, share in found.items():
        print(f"  {name:<12} {100 * share:5.1f} % of a core")
    print(json.dumps({"jobs": arguments.jobs, "share_of_a_core": found, "where": machine()}))


if __name__ == "__main__":
    main()
