"""Config keys in errors of a plan's checks."""

from collections.abc import Iterator
from contextlib import contextmanager

from tvmake.errors import TvmakeError
from tvmake.plan.plan import Plan


@contextmanager
def prefix_errors(key: str) -> Iterator[None]:
    """Prefix errors of the block with a config key."""
    try:
        yield
    except TvmakeError as error:
        raise type(error)(f"{key}: {error.where}", error.problem, error.remedy) from None


def tuning_key(plan: Plan, target: str, key: str) -> str:
    settings = plan.config.targets[target].tuning
    return f"targets.{target}.tuning.{key}" if settings and key in settings.model_fields_set else f"tuning.{key}"
