"""The process behind ``preloaded``: it reads one request per line and prints the command's exit code for each."""

import json
import os
import sys
from pathlib import Path

from tvmake.process.forkserver.pool import ONE_THREAD
from tvmake.process.forkserver.preload import check_single_thread, freeze_memory, load

PRELOADED = (
    "tvmake.cli.app",
    "tvmake.cli.make",
    "tvmake.cli.results.summary",
    "tvmake.cache.prepare",
    "tvmake.engine.cluster_check",
    "tvmake.engine.deployment_check",
    "tvmake.engine.release",
    "tvmake.engine.run",
    "tvmake.engine.scheduler",
    "tvmake.engine.snakefile",
    "tvmake.engine.up_to_date.explanation",
    "tvmake.lock.make",
    "tvmake.lock.rebuild",
    "tvmake.plan.directory_checks",
    "tvmake.plan.preconditions",
    "tvmake.provenance.check",
    "snakemake.cli",
    "snakemake.report.html_reporter",
    "snakemake.workflow",
    # Snakemake imports these in its functions.
    "boto3",
    "pandas",
    "smart_open",
)
"""Modules that commands load, other than those of single stages: they take half of a dry run's time."""


def _serve() -> None:
    os.environ |= ONE_THREAD  # a process with threads cannot be forked safely
    load((*PRELOADED, *sys.argv[1:]))
    check_single_thread()
    freeze_memory()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _become(**json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(arguments: list[str], directory: str, environment: dict[str, str], said: str) -> None:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(Path(said) / name, os.O_WRONLY | os.O_CREAT), number)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    from tvmake.cli import main

    sys.argv = ["tvmake", *arguments]
    code = 1
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()
