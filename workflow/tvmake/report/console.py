"""Consoles that write colours of their own, and none that a text brings along."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from tvmake.process.output import printable


class SafeConsole(Console):
    """A console that shows control characters in what it is given."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """What rich makes of a text or table, piece by piece."""
        for piece in super().render(renderable, options):
            yield piece if piece.control else Segment(_shown(piece.text), piece.style)


def _shown(text: Any) -> str:
    return "\n".join(printable(line) for line in text.split("\n"))
