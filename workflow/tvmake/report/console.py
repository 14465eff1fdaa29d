"""Consoles that write their own colours, but no control characters of texts."""

from collections.abc import Iterable, Sequence
from typing import IO, Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

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


def print_lines(console: Console, titles: Sequence[str], rows: Iterable[Sequence[tuple[str, str]]]) -> None:
    """Print a table of thousands of rows, one line each, whose last column has any width. Rich's own needs 1 ms a row.

    Args:
        console: where to print.
        titles: the columns' titles.
        rows: the cells' texts, each with its style; empty for none.
    """
    texts = [[(printable(text), style) for text, style in row] for row in rows]
    columns = zip(*[[(title, "bold") for title in titles], *texts], strict=True)
    widths = [max(cell_len(text) for text, _ in column) for column in columns]
    styled: dict[tuple[str, str], str] = {}

    def shown(text: str, style: str) -> str:
        if not style:
            return text
        if (text, style) not in styled:
            with console.capture() as written:
                console.print(Text(text, style), end="")
            styled[text, style] = written.get()
        return styled[text, style]

    for row in [[(title, "bold") for title in titles], *texts]:
        cells = [
            shown(text, style) + " " * (width - cell_len(text))
            for (text, style), width in zip(row, widths, strict=True)
        ]
        console.file.write("  ".join(cells).rstrip() + "\n")


def _shown(text: Any) -> str:
    return "\n".join(printable(line) for line in text.split("\n"))
