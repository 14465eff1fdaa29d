"""``tvmake step …``: one command per stage, generated from the stages' descriptors, for the rules."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command_from_info
from typer.models import CommandInfo

if TYPE_CHECKING:
    from tvmake.stages.descriptor import Input, Stage

OPTIONS_HELP = "Options of the stage as JSON (see config/schema.json); - reads them from stdin."
FROZEN_HELP = "Lock to take records or the layout from, instead of measuring."
VARIANT_HELP = "Variant in the lock: model/precision/target."


class StepGroup(TyperGroup):
    """A group with a command for each stage. A command loads only its stage's module."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The stages, in the order of the data flow."""
        from tvmake.stages.registry import stages

        return list(stages())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A stage's command; None if the stage does not exist."""
        from tvmake.errors import InputError
        from tvmake.stages.registry import stage_named

        try:
            stage = stage_named(cmd_name)
        except InputError:
            return None
        info = CommandInfo(name=stage.name, callback=callback_of(stage))
        return get_command_from_info(info, pretty_exceptions_short=False, rich_markup_mode=None)


app = typer.Typer(cls=StepGroup, no_args_is_help=True, help="Run one stage of the pipeline (for the workflow's rules).")


@app.callback()
def step() -> None:
    """Run one stage of the pipeline (for the workflow's rules)."""


def callback_of(stage: Stage) -> Callable[..., None]:
    """Return the function of a stage's command, with the signature from which typer builds arguments and options."""

    def run(**values: Any) -> None:
        from tvmake.cli.step.work import run_stage

        run_stage(stage, values)

    parameters = list(_parameters(stage))
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__doc__ = stage.summary
    return run


def _parameters(stage: Stage) -> Iterator[inspect.Parameter]:
    """Yield the command's parameters: arguments, then required and optional options."""
    inputs = [entry for entry in stage.inputs if entry.parameter]
    for entry in inputs:
        if not entry.help:
            kind = list[Path] if entry.is_many else Path
            yield _parameter(entry.parameter, kind, typer.Argument(dir_okay=False))
    for entry in inputs:
        if entry.help and not entry.is_optional:
            yield _input_option(entry)
    for value in stage.parameters:
        yield _parameter(value.name, value.type, typer.Option(help=value.help, min=value.minimum))
    if stage.request_model:
        yield _parameter("options", str, typer.Option("--options", help=OPTIONS_HELP))
    names: set[str] = set()
    for output in stage.outputs:
        if output.parameter not in names:
            names.add(output.parameter)
            yield _parameter(output.parameter, Path, typer.Option(help=output.help))
    for log in stage.logs:
        if log.parameter:
            yield _parameter(log.parameter, Path, typer.Option(help=log.help))
    for entry in inputs:
        if entry.help and entry.is_optional:
            yield _input_option(entry)
    if stage.takes_lock:
        yield _parameter("frozen", Path | None, typer.Option(help=FROZEN_HELP, dir_okay=False), None)
        yield _parameter("variant", str, typer.Option("--variant", help=VARIANT_HELP), "")


def _input_option(entry: Input) -> inspect.Parameter:
    option = typer.Option(
        help=entry.help, dir_okay=entry.is_directory or entry.is_many, file_okay=not entry.is_directory
    )
    kind: Any = list[Path] if entry.is_many else Path
    if entry.is_optional:
        return _parameter(entry.parameter, kind | None, option, None)
    return _parameter(entry.parameter, kind, option)


def _parameter(name: str, kind: Any, declared: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, declared]
    )
