"""What of a plan Snakemake is asked about: everything, or the variants that are not known to be up to date.

The Snakefile reads this when it is loaded. Files of variants that are left out are read as they are: no rule makes them,
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
"""A pattern that no name matches."""

NOTHING_TO_DO = "nothing to do: everything is up to date"


@dataclass(frozen=True)
class UpToDate:
    """What is known to be up to date."""

    variants: frozenset[Variant] = frozenset()
    report: bool = False

    def is_everything(self, plan: Plan) -> bool:
        """Whether there is nothing to do at all."""
        return self.report and len(self.variants) == len(plan.variants)


_LEFT_OUT: ContextVar[UpToDate] = ContextVar("left_out", default=UpToDate())  # noqa: B039  # never changed


@dataclass(frozen=True)
class Scope:
    """The part of a plan that Snakemake is asked about."""

    plan: Plan
    left_out: UpToDate

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The variants in it."""
        return tuple(variant for variant in self.plan.variants if variant not in self.left_out.variants)

    def goals(self) -> list[str]:
        """The files to make: all that the variants promise, the best packages and the report."""
        files = [file for variant in self.variants for file in self.plan.goals_of(variant)]
        return [*(file for job in self.plan.run_jobs() for file in job.outputs), *files]

    def names(self, wildcard: str, otherwise: str) -> str:
        """The pattern for a wildcard (``model``, ``precision``, ``target``).

        Args:
            otherwise: the pattern where nothing is left out.
        """
        if not self.left_out.variants:
            return otherwise
        names = dict.fromkeys(getattr(variant, wildcard) for variant in self.variants)
        return "|".join(map(re.escape, names)) or NOTHING


@contextmanager
def leaving_out(left_out: UpToDate) -> Iterator[None]:
    """Have Snakefiles that are loaded inside this block ask about the rest only."""
    token = _LEFT_OUT.set(left_out)
    try:
        yield
    finally:
        _LEFT_OUT.reset(token)


def scope_of(plan: Plan) -> Scope:
    """What the Snakefile that is being loaded is to ask about."""
    return Scope(plan, _LEFT_OUT.get())


def jobs_of(plan: Plan, variants: Iterable[Variant]) -> list[Job]:
    """The jobs of variants and the report, each once, in the order in which data flows."""
    jobs = [*(job for variant in variants for job in plan.jobs(variant)), *plan.run_jobs()]
    return list({job.outputs: job for job in jobs}.values())


def needed_for(wanted: Iterable[str], jobs: Sequence[Job]) -> list[Job]:
    """The jobs that files or rules need, in the order given; all jobs where nothing is named, or the rule that gathers them.

    Args:
        jobs: of whole variants, those before others included.
    """
    pending = [os.path.normpath(word) for word in wanted]
    if not pending or EVERYTHING in pending:
        return list(jobs)
    makers = {name: job for job in jobs for name in (job.rule, *job.outputs)}
    found: set[tuple[str, ...]] = set()
    while pending:
        job = makers.get(pending.pop())
        if job and job.outputs not in found:
            found.add(job.outputs)
            pending += job.inputs
    return [job for job in jobs if job.outputs in found]
