"""What every ``tvmake step`` command does with its options and its work."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from tvmake.cli.guard import guarded
from tvmake.errors import UsageError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from tvmake.config.base import Strict

Request = TypeVar("Request", bound="BaseModel")


def request_of(kind: type[Request], text: str) -> Request:
    """The stage's options, from JSON or, for ``-``, from standard input.

    Raises:
        UsageError: they are not what the stage takes.
    """
    from pydantic import ValidationError

    if text == "-":
        text = sys.stdin.read()
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise UsageError("--options", f"{key}: {first['msg']}" if key else first["msg"]) from None


def exit_after(stage: str, work: Callable[[], object]) -> None:
    """Do the work in a child process, so that a crash becomes a clear line, and end with its exit code."""
    raise typer.Exit(guarded(stage, work))


def exit_hermetic(
    name: str,
    work: Callable[[], object],
    stage: str,
    request: "Strict | None",
    inputs: Mapping[str, Path],
    outputs: Mapping[str, Path],
) -> None:
    """As :func:`exit_after`, for a stage whose result the cache may have."""

    def step() -> None:
        from tvmake.cache.settings import configured

        if configured() is None:
            work()
            return
        from tvmake.cache.key import Work
        from tvmake.cache.step import cached

        cached(Work(stage, request, inputs, outputs), work)

    exit_after(name, step)
