"""Run a stage with the arguments of its ``tvmake step`` command."""

import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from tvmake.cli.step.process import run_guarded
from tvmake.errors import UsageError
from tvmake.stages.descriptor import Stage

if TYPE_CHECKING:
    from pydantic import BaseModel

    from tvmake.cache.key import Work

Request = TypeVar("Request", bound="BaseModel")


def request_of(kind: type[Request], text: str) -> Request:
    """Parse the stage's options from JSON.

    Raises:
        UsageError: the options are invalid for the stage.
    """
    from pydantic import ValidationError

    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise UsageError("--options", f"{key}: {first['msg']}" if key else first["msg"]) from None


def run_stage(stage: Stage, values: dict[str, Any]) -> None:
    """Run a stage in a child process, so that a crash becomes a clear message, and exit with its exit code.

    Args:
        stage: the stage.
        values: the command's arguments and options by name.

    Raises:
        typer.Exit: always, with the exit code.
        UsageError: the options are invalid for the stage.
    """
    arguments = dict(values)
    options = ""
    if stage.request_model:
        options = arguments.pop("options")
        options = sys.stdin.read() if options == "-" else options
        arguments["request"] = request_of(stage.request_model, options)
    for entry in stage.inputs:
        if entry.parameter and entry.is_many:
            arguments[entry.parameter] = arguments[entry.parameter] or []

    def run() -> None:
        for line in stage.report(stage.function(**arguments)):
            typer.echo(line)

    raise typer.Exit(run_guarded(title(stage, arguments), lambda: _run_recorded(stage, arguments, options, run)))


def title(stage: Stage, arguments: Mapping[str, Any]) -> str:
    """Name of a stage's run in messages: the stage and its subject."""
    subject = stage.subject or (
        lambda arguments: arguments[next(entry.parameter for entry in stage.inputs if entry.parameter)]
    )
    return f"{stage.name} {subject(arguments)}".strip()


def work_of(stage: Stage, arguments: Mapping[str, Any]) -> "Work":
    """A run of a stage, for the cache."""
    from tvmake.cache.key import Work

    request = arguments.get("request")
    files: dict[str, Path] = {
        entry.parameter: arguments[entry.parameter]
        for entry in stage.inputs
        if entry.parameter and arguments.get(entry.parameter) is not None
    }
    outputs = {output.parameter: arguments[output.parameter] for output in stage.outputs}
    return Work(stage.name, stage.recipe, stage.roots(request), request, files, outputs)


def _run_recorded(stage: Stage, arguments: Mapping[str, Any], options: str, run: Callable[[], None]) -> None:
    """Run a stage and record its inputs and outputs, so that later runs can find what changed."""
    from tvmake.storage.notes.job_records import Invocation, record_job

    named = [entry.parameter for entry in stage.inputs if entry.parameter and not entry.has_no_time]
    inputs = [path for name in (*named, "frozen") for path in _paths(arguments.get(name))]
    inputs += stage.reads(arguments)
    outputs = [arguments[name] for name in dict.fromkeys(output.parameter for output in stage.outputs)]
    invocation = Invocation(
        options=options,
        parameters={value.name: str(arguments[value.name]) for value in stage.parameters},
        roots=stage.roots(arguments.get("request")),
        command=shlex.join(["tvmake", *sys.argv[1:]]),
    )
    with record_job(inputs, outputs, invocation):
        _run_cached(stage, arguments, run)


def _paths(value: Path | list[Path] | None) -> list[Path]:
    return value if isinstance(value, list) else [value] if value else []


def _run_cached(stage: Stage, arguments: Mapping[str, Any], run: Callable[[], None]) -> None:
    if stage.is_cached:
        from tvmake.cache.settings import configured_cache

        if configured_cache() is not None:
            from tvmake.cache.step import run_cached

            run_cached(work_of(stage, arguments), run)
            return
    run()
