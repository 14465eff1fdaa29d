"""The progress bar of a run, with a line per search. Its position is independent of the texts, in 80 columns, without colours."""

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.table import Column
from rich.text import Text

WIDTH = 20
"""Columns of the bar."""


class Bar(ProgressColumn):
    """``━━━━━━━━────────────``: the finished and the open part use different characters, for terminals without colours."""

    def render(self, task: Task) -> Text:
        """The bar; empty for a task without a known total."""
        if not task.total:
            return Text(" " * WIDTH)
        filled = min(WIDTH, int(WIDTH * task.completed / task.total))
        return Text.assemble(("━" * filled, "green"), ("─" * (WIDTH - filled), "dim"))


def progress_bar(console: Console) -> Progress:
    """A bar at the end of the output, removed when it stops. Long texts are cut, never the bar."""
    return Progress(
        TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")),
        Bar(table_column=Column(width=WIDTH, no_wrap=True)),
        MofNCompleteColumn(table_column=Column(min_width=7, no_wrap=True, justify="right")),
        TimeElapsedColumn(table_column=Column(width=7, no_wrap=True)),
        console=console,
        transient=True,
        expand=True,
    )
