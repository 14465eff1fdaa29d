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
from snakemake.logging import logger
from snakemake.persistence.file import FilePersistence
from snakemake.rules import Rule
from snakemake.scheduling.job_scheduler import JobScheduler
from snakemake_interface_logger_plugins.common import LogEvent

NOTES = 20_000
"""Snakemake's notes on results that are kept in memory between two jobs, 4 kB each. Snakemake keeps 128, and looks at all of
them twice where there are checkpoints."""

_group, _say_all = Rule.group, Job.log_info
_environment, _free_resources = Job.conda_env_spec, JobScheduler._free_resources
_parameters_of = snakemake.common.get_function_params
_read_note = FilePersistence._read_record_cached.__wrapped__


def plan_leanly() -> None:
    """Have Snakemake plan without what changes nothing, in this process."""
    Rule.group = property(_group_that_counts, _group.fset)
    snakemake.common.get_function_params = snakemake.rules.get_function_params = _known_parameters
    Job.log_info = _announce
    Job.conda_env_spec = property(_environment_by_rule)
    JobScheduler._free_resources = _free_what_was_taken
    FilePersistence._read_record_cached = lru_cache(NOTES)(_read_note)


def _group_that_counts(self: Any) -> Any:
    """Groups are for jobs that are sent elsewhere together. A dry run sends none, and would spend a twelfth of its time on them."""
    return None if self.workflow.dryrun else _group.fget(self)


def _environment_by_rule(self: Any) -> Any:
    """Only a function may ask for the job's parameters, which are a tenth of a plan to work out."""
    if callable(self.rule.conda_env):
        return _environment.fget(self)
    return self.rule.expand_conda_env(self.wildcards_dict)


def _free_what_was_taken(self: Any, job: Any) -> None:
    """In a dry run nobody has taken any; what each job needs takes a tenth of the run to work out."""
    if not self.dryrun:
        _free_resources(self, job)


def _announce(self: Any, indent: bool = False, printshellcmd: bool = True) -> None:
    """In a dry run, say of a job what ``tvmake make`` shows. The rest, its needs and its command, takes a fifth of the run."""
    if not self.dag.workflow.dryrun:
        _say_all(self, indent, printshellcmd)
        return
    logger.info(
        f"Rule: {self.rule.name}",
        extra={
            "event": LogEvent.JOB_INFO,
            "jobid": self.dag.jobid(self),
            "rule_name": self.rule.name,
            "rule_msg": _message(self),
            "reason": str(self.dag.reason(self)),
            "input": list(self.input),
            "output": list(self.output),
            "log": list(self.log),
            "wildcards": self.wildcards_dict,
            "is_checkpoint": self.rule.is_checkpoint,
        },
    )


def _message(job: Any) -> str | None:
    if not job.rule.message:
        return None
    try:
        return str(job.rule.message.format(wildcards=job.wildcards))
    except (KeyError, AttributeError):  # it names more than wildcards
        return str(job.message)


def _known_parameters(function: Callable[..., Any]) -> Mapping[str, Any]:
    """The parameters of a rule's function: asked for several times a job, of a few functions a rule."""
    try:
        return _of_function(function)
    except TypeError:  # it cannot be hashed
        return _parameters_of(function)


@cache
def _of_function(function: Callable[..., Any]) -> Mapping[str, Any]:
    return _parameters_of(function)
