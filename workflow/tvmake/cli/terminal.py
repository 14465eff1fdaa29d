"""Output of commands."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

PIPED_WIDTH = 400
"""Columns if the output is piped: one line per row."""


def open_console(piped_width: int = PIPED_WIDTH) -> Console:
    """A console on the terminal, or a wide one if the output is piped."""
    from tvmake.report.console import SafeConsole

    return SafeConsole(width=None if sys.stdout.isatty() else piped_width, highlight=False)


def print_json(value: Any) -> None:
    """Print a value as JSON for programs. The text is valid in any locale."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
        is_safe = all(line.isprintable() for line in text.split("\n"))
    except UnicodeEncodeError:
        is_safe = False
    print(text if is_safe else json.dumps(value, indent=2))
