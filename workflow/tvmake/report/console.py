"""Consoles that write colours of their own, and none that a text brings along."""

from collections.abc import Iterable
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from tvmake.process.output import printable


class SafeConsole(Console):
    """A console that shows control characters in what it is given, and names between colons (``fac:ok``) as they are.

    Its own go to the terminal as they are, also while a bar stands there: rich puts a stream of its own in the place of standard error
    then, over the one that escapes what is printed (``process.output``).
    """

    def __init__(self, **how: Any):
        super().__init__(emoji=False, **how)

    @property
    def file(self) -> IO[str]:
        """The stream below all others."""
        found = super().file
        while (below := getattr(found, "rich_proxied_file", None)) is not None:
            found = below
        return found

    @file.setter
    def file(self, new_file: IO[str]) -> None:
        self._file = new_file

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """What rich makes of a text or table, piece by piece."""
        for piece in super().render(renderable, options):
            yield piece if piece.control else Segment(_shown(piece.text), piece.style)


def _shown(text: Any) -> str:
    return "\n".join(printable(line) for line in text.split("\n"))
