"""What commands print with."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

PIPED_WIDTH = 400
"""Columns where a program reads along: one line a row."""


def open_console(piped_width: int = PIPED_WIDTH) -> Console:
    """The terminal, or something wide enough where there is none."""
    from tvmake.report.console import SafeConsole

    return SafeConsole(width=None if sys.stdout.isatty() else piped_width, highlight=False)


def print_json(value: Any) -> None:
    """Print what ``--json`` asks for: facts of a command, for programs. It is JSON in any locale, whatever the texts hold."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
        is_safe = all(line.isprintable() for line in text.split("\n"))
    except UnicodeEncodeError:
        is_safe = False
    print(text if is_safe else json.dumps(value, indent=2))
