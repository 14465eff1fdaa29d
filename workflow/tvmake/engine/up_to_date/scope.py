"""The part of a plan that Snakemake handles: everything, or the variants that are not known to be up to date.

The Snakefile reads this when it is loaded. Files of variants that are left out are plain inputs: no rule makes them,
because the rules' wildcards do not match their names.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from tvmake.plan.plan import Job, Plan, Variant
from tvmake.plan.wanted import EVERYTHING

NOTHING = r"(?!)"
"""A pattern that matches no name."""

NOTHING_TO_DO = "nothing to do: everything is up to date"


@dataclass(frozen=True)
class UpToDate:
    """The variants that are known to be up to date, and whether the report is."""

    variants: frozenset[Variant] = frozenset()
    report: bool = False

    def is_everything(self, plan: Plan) -> bool:
        """Whether nothing is left to do."""
        return self.report and len(self.variants) == len(plan.variants)


_LEFT_OUT: ContextVar[UpToDate] = ContextVar("left_out", default=UpToDate())  # noqa: B039  # never changed


@dataclass(frozen=True)
class Scope:
    """The part of a plan that Snakemake handles."""

    plan: Plan
    left_out: UpToDate

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The variants of this part."""
        return tuple(variant for variant in self.plan.variants if variant not in self.left_out.variants)

    def goals(self) -> list[str]:
        """The files to make: the variants' goals, the best packages and the report."""
        files = [file for variant in self.variants for file in self.plan.goals_of(variant)]
        return [*(file for job in self.plan.run_jobs() for file in job.outputs), *files]

    def groups(self) -> str:
        """The pattern of the names of models with functions."""
        names = dict.fromkeys(self.plan.context(variant).group for variant in self.variants)
        return "|".join(map(re.escape, filter(None, names))) or NOTHING

    def names(self, wildcard: str, otherwise: str) -> str:
        """The pattern for a wildcard (``model``, ``precision``, ``target``).

        Args:
            otherwise: the pattern if nothing is left out.
        """
        if not self.left_out.variants:
            return otherwise
        names = dict.fromkeys(getattr(variant, wildcard) for variant in self.variants)
        return "|".join(map(re.escape, names)) or NOTHING


@contextmanager
def skip_variants(left_out: UpToDate) -> Iterator[None]:
    """Leave variants out in Snakefiles that are loaded inside this block."""
    token = _LEFT_OUT.set(left_out)
    try:
        yield
    finally:
        _LEFT_OUT.reset(token)


def scope_of(plan: Plan) -> Scope:
    """The scope of the Snakefile that is being loaded."""
    return Scope(plan, _LEFT_OUT.get())


def jobs_of(plan: Plan, variants: Iterable[Variant]) -> list[Job]:
    """The jobs of variants and the report, each once, in the order of the data flow."""
    jobs = [*(job for variant in variants for job in plan.jobs(variant)), *plan.run_jobs()]
    return list({job.outputs: job for job in jobs}.values())


def needed_for(wanted: Iterable[str], jobs: Sequence[Job]) -> list[Job]:
    """The jobs that files or rules need, in the given order; all jobs if nothing is named, or the rule ``all``.

    Args:
        jobs: all jobs of whole variants.
    """
    pending = [os.path.normpath(word) for word in wanted]
    if not pending or EVERYTHING in pending:
        return list(jobs)
    makers = {name: job for job in jobs for name in (job.rule, *job.outputs)}
    needed: set[tuple[str, ...]] = set()
    while pending:
        job = makers.get(pending.pop())
        if job and job.outputs not in needed:
            needed.add(job.outputs)
            pending += job.inputs
    return [job for job in jobs if job.outputs in needed]
