"""What Snakemake works out again for every job, and need not.

As in ``by_content``, methods of Snakemake's are wrapped, since there are no options for this. It concerns ``tvmake make`` only.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from itertools import chain
from typing import Any

import snakemake.api  # its modules import each other, which works from this one on
import snakemake.common
import snakemake.rules
from snakemake.dag import DAG
from snakemake.jobs import Job
from snakemake.logging import logger
from snakemake.output_index import OutputIndex
from snakemake.persistence.file import FilePersistence
from snakemake.rules import Rule
from snakemake.scheduling.job_scheduler import JobScheduler
from snakemake_interface_logger_plugins.common import LogEvent

NOTES = 20_000
"""Snakemake's notes on results that are kept in memory between two jobs, 4 kB each. Snakemake keeps 128, and looks at all of
them twice where there are checkpoints."""

_group, _say_all = Rule.group, Job.log_info
_environment, _hand_out = Job.conda_env_spec, JobScheduler.schedule
_check_directories = DAG.check_directory_outputs
_which_must_run, _jobs_from = DAG.update_needrun, DAG.bfs
_set_up, _find_producer = DAG.init, DAG.update
_parameters_of = snakemake.common.get_function_params
_read_note = FilePersistence._read_record_cached.__wrapped__


def plan_leanly() -> None:
    """Have Snakemake plan without what changes nothing, in this process."""
    Rule.group = property(_group_that_counts, _group.fset)
    snakemake.common.get_function_params = snakemake.rules.get_function_params = _known_parameters
    Job.log_info = _announce
    Job.conda_env_spec = property(_environment_by_rule)
    Job.is_valid = _can_be_named
    DAG.check_directory_outputs = _check_directories_that_hold_outputs
    DAG.update_needrun, DAG.bfs = _which_must_run_once, _jobs_from_once
    OutputIndex.__init__, OutputIndex.match = _index_by_names, _rules_that_may_make
    DAG.producers = None
    DAG.init, DAG.update = _set_up_remembering, _find_producer_once
    JobScheduler.schedule = _announce_all
    FilePersistence._read_record_cached = lru_cache(NOTES)(_read_note)


def _group_that_counts(self: Any) -> Any:
    """Groups are for jobs that are sent elsewhere together. A dry run sends none, and would spend a twelfth of its time on them."""
    return None if self.workflow.dryrun else _group.fget(self)


def _environment_by_rule(self: Any) -> Any:
    """Only a function may ask for the job's parameters, which are a tenth of a plan to work out."""
    if callable(self.rule.conda_env):
        return _environment.fget(self)
    return self.rule.expand_conda_env(self.wildcards_dict)


def _can_be_named(self: Any) -> None:
    """The names of its log and benchmark can be told. The job keeps them: Snakemake asks for the log again when it announces it."""
    _ = self.benchmark, self.log


def _check_directories_that_hold_outputs(self: Any) -> None:
    """An output may not lie in another one. Snakemake compares all outputs as paths, a fourteenth of a plan, where their
    directories tell that there is nothing to compare."""
    outputs = {os.path.abspath(file) for job in self.jobs for file in job.output}  # noqa: PTH100  # a fifth of the time
    directories = set[str]()
    for output in outputs:
        directory = output.rpartition("/")[0]
        while directory and directory not in directories:
            directories.add(directory)
            directory = directory.rpartition("/")[0]
    if not directories.isdisjoint(outputs):
        _check_directories(self)


def _index_by_names(self: Any, rules: Iterable[Any]) -> None:
    """A stage's outputs are in the same directory as those of most others, and differ in how their names end."""
    self.by_name, self.other = defaultdict(list), []
    for rule in rules:
        for product in rule.products():
            prefix, suffix = str(product.constant_prefix()), str(product.constant_suffix())
            _, slash, name = suffix.rpartition("/")
            (self.by_name[name] if slash else self.other).append((prefix, suffix, rule))


def _rules_that_may_make(self: Any, targetfile: str) -> set[Any]:
    outputs = chain(self.by_name.get(targetfile.rpartition("/")[2], ()), self.other)
    return {rule for start, end, rule in outputs if targetfile.startswith(start) and targetfile.endswith(end)}


async def _set_up_remembering(self: Any, progress: bool = False) -> None:
    """Which job makes a file is asked for each job that reads it. The answer is the same for all, and for all targets."""
    self.producers = {}
    try:
        await _set_up(self, progress)
    finally:
        self.producers = None


async def _find_producer_once(
    self: Any, jobs: Any, file: Any = None, visited: Any = None, known_producers: Any = None, **how: Any
) -> Any:
    if known_producers is None:
        known_producers = {} if self.producers is None else self.producers
    producer = await _find_producer(self, jobs, file, visited, known_producers, **how)
    if file is not None:
        known_producers[file] = [producer]  # Snakemake looks there, and notes only files that no job makes
    return producer


async def _which_must_run_once(self: Any, create_inventory: bool = False) -> None:
    """Of each job that must run, Snakemake looks up all jobs that depend on it. Those that two of them share are looked up
    once: a target's models share its budget's jobs, so that the time would grow with the square of the models."""
    self.jobs_that_follow = set()
    try:
        await _which_must_run(self, create_inventory)
    finally:
        self.jobs_that_follow = None


def _jobs_from_once(self: Any, direction: Any, *jobs: Any, stop: Callable[[Any], bool] | None = None) -> Iterator[Any]:
    followed = getattr(self, "jobs_that_follow", None)
    if followed is None or direction is not self.depending or stop:
        yield from _jobs_from(self, direction, *jobs, stop=stop or (lambda _: False))
        return
    for job in _jobs_from(self, direction, *jobs, stop=followed.__contains__):
        followed.add(job)
        yield job


def _announce_all(self: Any) -> bool:
    """In a dry run no job waits for another to end: handing them out as others do takes 3 to 5 % of the run, and giving back
    what they never took another tenth."""
    dag = self.workflow.dag
    if not self.dryrun or dag.queue_input_jobs:
        return _hand_out(self)
    for level in dag.toposorted(set(dag.needrun_jobs())):
        for job in level:
            if self._user_kill:  # SIGTERM, which Snakemake only notes
                return False
            job.log_info()
    return True


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
