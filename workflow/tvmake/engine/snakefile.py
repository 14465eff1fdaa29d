"""The package's interface for the Snakefile: the plan of its config, and its rules' sources, resources and goals."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvmake.cache import settings as cache
from tvmake.config import device_variables
from tvmake.engine import shared_stores
from tvmake.engine.release import check_checkout, check_release
from tvmake.engine.rule_plan import RulePlan
from tvmake.engine.up_to_date.outdated import missing_results
from tvmake.engine.up_to_date.result_times import set_result_times
from tvmake.engine.up_to_date.scope import Scope, jobs_of, scope_of
from tvmake.engine.up_to_date.sources import Sources, known_digests
from tvmake.errors import ErrorList, InputError
from tvmake.plan.plan import Plan
from tvmake.plan.preconditions import missing_inputs
from tvmake.plan.resources import JobResources
from tvmake.process.python import protect_children
from tvmake.storage.resources import put_tvmake_on_path, snakefile


@dataclass(frozen=True)
class Workflow:
    """One config, for the rules."""

    plan: Plan
    scope: Scope
    rules: RulePlan
    missing: list[str]
    """Results that are missing because their job failed, and that Snakemake assumes to be done."""

    def goals(self) -> list[str]:
        """The files to make: the plan's goals, and the missing files that they need."""
        return [*self.scope.goals(), *self.missing]

    def keep(self) -> None:
        """Save the digests for later runs."""
        known_digests().save()


def open_workflow(config: Mapping[str, Any], workflow: Any, checkpoints: Any) -> Workflow:
    """Read the config, and prepare this process and the results for Snakemake.

    Args:
        config: as merged by Snakemake.
        workflow: Snakemake's workflow.
        checkpoints: Snakemake's checkpoints.

    Raises:
        TvmakeError: the release of Snakemake is not supported, the Snakefile is of another version, the config is invalid, or a
            shared store of the cluster is missing here.
    """
    check_release()
    check_checkout(Path(workflow.main_snakefile))
    put_tvmake_on_path()
    protect_children()
    plan = Plan.from_values(config, workflow.configfiles)
    if workflow.remote_exec:
        shared_stores.check()
    _check_own_logs(plan, workflow)
    cache.announce(plan.config.cache)
    device_variables.announce(plan.config.devices)
    scope = scope_of(plan)
    is_main = Path(workflow.main_snakefile).resolve() == snakefile().resolve()
    if not is_main and not workflow.remote_exec:
        _note_missing(plan)
    jobs = [] if workflow.remote_exec else jobs_of(plan, scope.variants)
    set_result_times(jobs)
    cores = workflow.resource_settings.cores or os.cpu_count()
    # Snakemake decides how jobs run only after it has read the rules.
    resources = JobResources(plan, cores, on_cluster=lambda: workflow.remote_exec or not workflow.local_exec)
    rules = RulePlan(plan, Sources(may_be_made=not is_main), resources, checkpoints)
    return Workflow(plan, scope, rules, missing_results(jobs))


_OPENED: list[tuple[Any, str, str]] = []
"""Snakemake's workflow, directory of logs and directory of results of each config in this process."""


def _check_own_logs(plan: Plan, workflow: Any) -> None:
    """Refuse two modules of one workflow that write the same logs."""
    logs, results = plan.config.logs, plan.config.results
    others = [other for known, used, other in _OPENED if known is workflow and used == logs and other != results]
    _OPENED.append((workflow, logs, results))
    if others:
        problem = f"the config with `results: {others[0]}` writes its logs there too"
        raise InputError(f"logs: {logs}", problem, f"give this one its own: `logs: {logs}-2`")


def _note_missing(plan: Plan) -> None:
    """Print the missing files of the config by key. Snakemake reports only rules' inputs, and another rule may make the files."""
    missing = missing_inputs(plan)
    for error in missing.errors if isinstance(missing, ErrorList) else filter(None, [missing]):
        print(f"note: {error.where}: {error.problem}, unless a rule makes it; {error.remedy}", file=sys.stderr)


def rule_files() -> list[Path]:
    """The files of all rules, one per stage."""
    return sorted((snakefile().parent / "rules").glob("*.smk"))
