"""The jobs that Snakemake would run, with their files: a dry run with its own log handler."""

import argparse
import contextlib
import io
import logging
import sys
from copy import copy
from dataclasses import dataclass

from snakemake.logging import get_event
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_interface_logger_plugins.registry import LoggerPluginRegistry

PLUGIN = "tvmake-plan"


@dataclass(frozen=True)
class PlannedJob:
    """A job that would run."""

    rule: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


_PLANNED: list[PlannedJob] = []
"""Filled by the handler, which Snakemake creates itself."""


def planned_jobs(args: argparse.Namespace, parser: argparse.ArgumentParser) -> list[PlannedJob] | None:
    """Return the jobs that Snakemake would run with these arguments; None if it refuses. The run reports the reason."""
    from snakemake.cli import args_to_api

    LoggerPluginRegistry().register_plugin(PLUGIN, sys.modules[__name__])
    dry = copy(args)
    dry.dryrun, dry.logger, dry.executor = True, [PLUGIN], "dryrun"
    _PLANNED.clear()
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        try:
            return list(_PLANNED) if args_to_api(dry, parser) else None
        except Exception:  # noqa: BLE001  # the run itself raises it again and reports it
            return None


class LogHandler(LogHandlerBase):
    """Collects the jobs of a dry run."""

    writes_to_stream = True
    writes_to_file = False
    has_filter = True
    has_formatter = True
    needs_rulegraph = False

    def emit(self, record: logging.LogRecord) -> None:
        """Collect a job."""
        if get_event(record) == LogEvent.JOB_INFO:
            data = record.__dict__
            inputs, outputs = (tuple(map(str, data.get(name) or ())) for name in ("input", "output"))
            _PLANNED.append(PlannedJob(str(data.get("rule_name")), inputs, outputs))
