"""What must be there before a plan's jobs can run."""

from pathlib import Path

from tvmake.config.reading.load import one_or_many
from tvmake.errors import InputError, TvmakeError
from tvmake.plan.plan import Plan
from tvmake.records.store import open_store


def missing_inputs(plan: Plan) -> TvmakeError | None:
    """The error for models, datasets and pass files that the config names and that do not exist, if there are any."""
    missing = [
        InputError(f"models.{model}", f"no such file: {file}")
        for model in plan.config.models
        for file in dict.fromkeys(
            plan.reference_files(model) + plan.pass_files("transform", model) + plan.pass_files("build", model)
        )
        if not Path(file).exists()
    ]
    return one_or_many(missing) if missing else None


def check_stores(plan: Plan) -> None:
    """Refuse a records store that can be none, before each kernel's job does.

    Raises:
        InputError: it is no directory.
    """
    for target in dict.fromkeys(variant.target for variant in plan.variants if plan.is_tuned(variant)):
        open_store(plan.tuning(target).store)
