"""The bar of a run, with a line for each search: it keeps its place whatever a line says, in 80 columns and without colours."""

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.table import Column
from rich.text import Text

WIDTH = 20
"""Of the bar, in columns."""


class Bar(ProgressColumn):
    """``━━━━━━━━────────────``: what is done differs from what is left by its letters too, for terminals without colours."""

    def render(self, task: Task) -> Text:
        """The bar; empty for a task whose extent is not known."""
        if not task.total:
            return Text(" " * WIDTH)
        done = min(WIDTH, int(WIDTH * task.completed / task.total))
        return Text.assemble(("━" * done, "green"), ("─" * (WIDTH - done), "dim"))


def progress_bar(console: Console) -> Progress:
    """A bar at the end of the output, gone when it is stopped. A text that is too long for the terminal is cut, not the bar."""
    return Progress(
        TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")),
        Bar(table_column=Column(width=WIDTH, no_wrap=True)),
        MofNCompleteColumn(table_column=Column(min_width=7, no_wrap=True, justify="right")),
        TimeElapsedColumn(table_column=Column(width=7, no_wrap=True)),
        console=console,
        transient=True,
        expand=True,
    )
