"""What of a plan Snakemake is asked about: everything, or the variants that are not known to be up to date.

The Snakefile reads this when it is loaded. Files of variants that are left out are read as they are: no rule makes them,
because the rules' wildcards do not match their names.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache

from tvmake.plan.plan import Plan, Variant
from tvmake.stages.registry import stages

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


def read_by_others(plan: Plan, variant: Variant) -> list[str]:
    """The files of a variant that jobs of no single model read: the report, and the budget of its target."""
    return [path for path, output in plan.outputs_of(variant).items() if output.artifact in _artifacts_read_by_others()]


@cache
def _artifacts_read_by_others() -> frozenset[str]:
    readers = [stage for stage in stages().values() if not any("model" in kind.wildcards for kind in stage.kinds)]
    return frozenset(name for stage in readers for entry in stage.inputs for name in entry.names)
