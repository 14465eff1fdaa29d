"""What commands print with."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

PIPED_WIDTH = 400
"""Columns where a program reads along: one line a row."""


def open_console(piped_width: int = PIPED_WIDTH) -> Console:
    """The terminal, or something wide enough where there is none."""
    from tvmake.report.console import SafeConsole

    return SafeConsole(width=None if sys.stdout.isatty() else piped_width, highlight=False)
