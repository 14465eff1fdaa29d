"""``tvmake`` whose Slurm plugin looks after jobs every other second; it would look ever more seldom, to spare Slurm."""

import sys

from snakemake_executor_plugin_slurm import Executor

from tvmake.cli import main

LOOK_S = 2

Executor.next_seconds_between_status_checks = property(lambda _: LOOK_S, lambda *_: None)

if __name__ == "__main__":
    sys.exit(main())
