"""``tvmake check``: is the config right, and what would it make?"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from tvmake.cli.configs import ConfigFiles, Settings

if TYPE_CHECKING:
    from tvmake.config.root import ModelConfig

UNUSUAL_KINDS = ("metal", "rocm", "vulkan", "hexagon", "webgpu")
"""Target kinds that TVM's wheels may have no code generator for."""


def check(
    config: ConfigFiles = None,
    settings: Settings = None,
    files: Annotated[bool, typer.Option("--files", help="List every file that would be made.")] = False,
) -> None:
    """Validate a config and list what it would make."""
    from rich.table import Table

    from tvmake.cli.configs import config_files, load_plan, print_note
    from tvmake.plan.preconditions import check_stores, missing_inputs
    from tvmake.report.console import SafeConsole

    paths = config_files(config)
    plan = load_plan(paths, settings, print_note)
    if missing := missing_inputs(plan):
        raise missing
    check_stores(plan)
    _check_models(plan.config.models)
    # TVM takes a second to load; it is asked where the answer may be no.
    if unusual := {name: target.kind for name, target in plan.config.targets.items() if target.kind in UNUSUAL_KINDS}:
        from tvmake.targets.listing import check_generated

        check_generated(unusual)
    table = Table("model", "precision", "target", "runs on", box=None, pad_edge=False, header_style="bold")
    for variant in plan.variants:
        table.add_row(
            variant.model, variant.precision, variant.target, plan.device_of(variant.target) or "(package only)"
        )
    console = SafeConsole(soft_wrap=True)
    console.print(table)
    if files:
        for artifact in ("package.tar", "numerics.json", "latency.json"):
            for file in plan.results_of(artifact):
                console.print(file, highlight=False)
        for file in plan.goals():
            console.print(file, highlight=False)
    console.print(
        f"{', '.join(map(str, paths))}: ok; {len(plan.variants)} variants of {len(plan.config.models)} models, "
        f"{len(plan.runnable)} of them run on a device",
        highlight=False,
    )


def _check_models(models: "Mapping[str, ModelConfig]") -> None:
    """See that each model can be read: what the import would refuse at once is refused here."""
    from tvmake.config.reading.load import one_or_many
    from tvmake.errors import InputError
    from tvmake.frontend.inspect import check_source

    errors = []
    for name, model in models.items():
        try:
            check_source(model.import_options())
        except InputError as error:
            errors.append(InputError(f"models.{name}: {error.where}", error.problem, error.remedy))
    if errors:
        raise one_or_many(errors)
