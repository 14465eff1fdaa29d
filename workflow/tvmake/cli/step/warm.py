"""Which fork server a step is forked from. Imports little: every step starts with it."""

import json
import os
from typing import Any

from tvmake.process.forkserver.client import DIRECTORY, hand_over
from tvmake.stages import SERVERS_FILE

ENTRY = "tvmake.cli:run"

USUAL = "compiler"


def run_warm(arguments: list[str]) -> int | None:
    """Have a fork server run ``tvmake step …``.

    Returns:
        The exit code; None when there is none and the step has to run here.
    """
    directory = os.environ.get(DIRECTORY)
    return hand_over(server_of(arguments, directory), ENTRY, arguments) if directory else None


def server_of(arguments: list[str], directory: str) -> str:
    """The kind of server for a step.

    Args:
        arguments: ``step``, the stage and its arguments.
        directory: of the servers.
    """
    # With records from a lock nothing is searched or measured.
    if any(word.startswith("--frozen") for word in arguments):
        return USUAL
    try:
        with open(f"{directory}/{SERVERS_FILE}") as file:  # noqa: PTH123  # pathlib costs 10 ms here
            server = json.load(file).get(arguments[1], USUAL)
    except (OSError, ValueError, IndexError):
        return USUAL
    return str(server) if isinstance(server, str) else _of_format(arguments, server)


def _of_format(arguments: list[str], servers: dict[str, str]) -> str:
    """The server for a model's format, as far as the options of the step say it; else the step itself says what is wrong."""
    try:
        options: dict[str, Any] = json.loads(arguments[arguments.index("--options") + 1])
        model = options.get("model", options)
        # The suffix is no format's name for factories and networks of a zoo.
        form = model.get("format") or model["source"].rpartition(".")[2]
        return servers.get(form.lower(), "torch")
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return USUAL
