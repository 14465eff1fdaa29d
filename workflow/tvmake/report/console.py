"""Consoles that write their own colours, but no control characters of texts."""

from collections.abc import Iterable
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from tvmake.process.output import printable


class SafeConsole(Console):
    """A console that escapes control characters in its input, and shows names between colons (``fac:ok``) unchanged.

    Its own control sequences go to the terminal, also while a progress bar is shown: rich then replaces standard error by its own
    stream, on top of the one that escapes output (``process.output``).
    """

    def __init__(self, **how: Any):
        super().__init__(emoji=False, **how)

    @property
    def file(self) -> IO[str]:
        """The stream below all others."""
        stream = super().file
        while (below := getattr(stream, "rich_proxied_file", None)) is not None:
            stream = below
        return stream

    @file.setter
    def file(self, new_file: IO[str]) -> None:
        self._file = new_file

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Rich's rendering of a text or table, piece by piece."""
        for piece in super().render(renderable, options):
            yield piece if piece.control else Segment(_shown(piece.text), piece.style)


def _shown(text: Any) -> str:
    return "\n".join(printable(line) for line in text.split("\n"))
