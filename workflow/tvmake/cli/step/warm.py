"""Choose the fork server for a step. Imports little, because every step starts with it."""

import json
import os
from typing import Any

from tvmake.process.forkserver.client import DIRECTORY, hand_over
from tvmake.stages import SERVERS_FILE

ENTRY = "tvmake.cli:run"

DEFAULT = "compiler"


def run_warm(arguments: list[str]) -> int | None:
    """Run ``tvmake step …`` in a fork server.

    Returns:
        The exit code; None if there is no server: the step must run here.
    """
    directory = os.environ.get(DIRECTORY)
    return hand_over(server_of(arguments, directory), ENTRY, arguments) if directory else None


def server_of(arguments: list[str], directory: str) -> str:
    """Return the kind of server for a step.

    Args:
        arguments: ``step``, the stage and its arguments.
        directory: the servers' directory.
    """
    # With records from a lock, nothing is searched or measured.
    if any(word.startswith("--frozen") for word in arguments):
        return DEFAULT
    try:
        with open(f"{directory}/{SERVERS_FILE}") as file:  # noqa: PTH123  # pathlib costs 10 ms here
            server = json.load(file).get(arguments[1], DEFAULT)
    except (OSError, ValueError, IndexError):
        return DEFAULT
    return str(server) if isinstance(server, str) else _server_of_format(arguments, server)


def _server_of_format(arguments: list[str], servers: dict[str, str]) -> str:
    """The server for a model's format, if the step's options are valid; if not, the step reports the error."""
    try:
        options: dict[str, Any] = json.loads(arguments[arguments.index("--options") + 1])
        model = options.get("model", options)
        # Factories and networks of a zoo have no suffix that names a format.
        form = model.get("format") or model["source"].rpartition(".")[2]
        return servers.get(form.lower(), "torch")
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return DEFAULT
