"""What Snakemake works out again for every job, and need not.

As in ``by_content``, methods of Snakemake's are wrapped, since there are no options for this. It concerns ``tvmake make`` only.
"""

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any

import snakemake.api  # its modules import each other, which works from this one on
import snakemake.common
import snakemake.rules
from snakemake.jobs import Job
from snakemake.persistence.file import FilePersistence
from snakemake.rules import Rule

NOTES = 20_000
"""Snakemake's notes on results that are kept in memory between two jobs, 3 kB each. Snakemake keeps 128, and looks at all of
them twice where there are checkpoints."""

_group, _shell_command = Rule.group, Job.shellcmd
_parameters_of = snakemake.common.get_function_params
_read_note = FilePersistence._read_record_cached.__wrapped__


def plan_leanly() -> None:
    """Have Snakemake plan without what changes nothing, in this process."""
    Rule.group = property(_group_that_counts, _group.fset)
    snakemake.common.get_function_params = snakemake.rules.get_function_params = _known_parameters
    Job.shellcmd = property(_shell_command_to_run)
    FilePersistence._read_record_cached = lru_cache(NOTES)(_read_note)


def _group_that_counts(self: Any) -> Any:
    """Groups are for jobs that are sent elsewhere together. A dry run sends none, and would spend a sixth of its time on them."""
    return None if self.workflow.dryrun else _group.fget(self)


def _shell_command_to_run(self: Any) -> str | None:
    """Snakemake puts a job's shell command together three times for whoever might show it, which ``tvmake make -n`` does not."""
    return None if self.dag.workflow.dryrun else _shell_command.fget(self)


def _known_parameters(function: Callable[..., Any]) -> Mapping[str, Any]:
    """The parameters of a rule's function: asked for several times a job, of a few functions a rule."""
    try:
        return _of_function(function)
    except TypeError:  # it cannot be hashed
        return _parameters_of(function)


@cache
def _of_function(function: Callable[..., Any]) -> Mapping[str, Any]:
    return _parameters_of(function)
