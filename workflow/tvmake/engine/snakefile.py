"""What the Snakefile takes from the package: the plan of its config, and how its rules name sources, resources and goals."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvmake.cache import settings as cache
from tvmake.config import device_variables
from tvmake.engine import shared_stores
from tvmake.engine.release import check_release
from tvmake.engine.rule_plan import RulePlan
from tvmake.engine.up_to_date.outdated import undone
from tvmake.engine.up_to_date.result_times import set_result_times
from tvmake.engine.up_to_date.scope import Scope, jobs_of, scope_of
from tvmake.engine.up_to_date.sources import Sources, known_digests
from tvmake.errors import ErrorList
from tvmake.plan.plan import Plan
from tvmake.plan.preconditions import missing_inputs
from tvmake.plan.resources import JobResources
from tvmake.process.python import protect_children
from tvmake.storage.resources import put_tvmake_on_path, snakefile


@dataclass(frozen=True)
class Workflow:
    """One config, as the rules see it."""

    plan: Plan
    scope: Scope
    rules: RulePlan
    undone: list[str]
    """What is missing because its job has failed, and Snakemake takes for done."""

    def goals(self) -> list[str]:
        """The files to make: what the plan promises, and what is missing for it."""
        return [*self.scope.goals(), *self.undone]

    def keep(self) -> None:
        """Keep the digests that were read for later runs."""
        known_digests().save()


def open_workflow(config: Mapping[str, Any], workflow: Any, checkpoints: Any) -> Workflow:
    """Read the config, and prepare this process and its results for Snakemake's questions.

    Args:
        config: as Snakemake has merged it.
        workflow: Snakemake's own.
        checkpoints: Snakemake's own.

    Raises:
        TvmakeError: Snakemake is another release, the config is wrong, or a store that all nodes of a cluster share is not there on this one.
    """
    check_release()
    put_tvmake_on_path()
    protect_children()
    plan = Plan.from_values(config, workflow.configfiles)
    if workflow.remote_exec:
        shared_stores.check()
    cache.announce(plan.config.cache)
    device_variables.announce(plan.config.devices)
    scope = scope_of(plan)
    is_main = Path(workflow.main_snakefile).resolve() == snakefile().resolve()
    if not is_main and not workflow.remote_exec:
        _note_missing(plan)
    jobs = [] if workflow.remote_exec else jobs_of(plan, scope.variants)
    set_result_times(jobs)
    cores = workflow.resource_settings.cores or os.cpu_count()
    # How jobs are run, Snakemake decides only after it has read the rules.
    resources = JobResources(plan, cores, on_cluster=lambda: workflow.remote_exec or not workflow.local_exec)
    rules = RulePlan(plan, Sources(may_be_made=not is_main), resources, checkpoints)
    return Workflow(plan, scope, rules, undone(jobs))


def _note_missing(plan: Plan) -> None:
    """Print which files of the config are not there, by key: Snakemake says of its rules what they lack, or another rule makes them."""
    missing = missing_inputs(plan)
    for error in missing.errors if isinstance(missing, ErrorList) else filter(None, [missing]):
        print(f"note: {error.where}: {error.problem}, unless a rule makes it; {error.remedy}", file=sys.stderr)


def rule_files() -> list[Path]:
    """The files of all rules, beside the Snakefile; one a stage."""
    return sorted((snakefile().parent / "rules").glob("*.smk"))
