"""Snakemake's scheduler plugin ``tvmake``, found by this package's name; see :mod:`tvmake.engine.scheduler`."""

from tvmake.engine.scheduler import Scheduler, SchedulerSettings

__all__ = ["Scheduler", "SchedulerSettings"]
