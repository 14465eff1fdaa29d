"""The comparison of two runs as text."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tvmake.process.output import printable
from tvmake.report import quantities
from tvmake.report.console import SafeConsole
from tvmake.report.diff import SummaryDiff, VariantDiff
from tvmake.report.terminal import plain_table

COLUMNS = ("variant", "statistic", "old ms", "new ms", "change", "95 % interval", "latency")
NUMERIC = ("old ms", "new ms", "change", "95 % interval")
STYLES = {"faster": "green", "slower": "bold red"}


def print_diff(diff: SummaryDiff, console: Console | None = None) -> None:
    """Print latencies as a table, then other changes, one line each."""
    console = console or SafeConsole()
    rows = [_cells(variant) for variant in diff.variants]
    if rows and console.is_terminal:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in COLUMNS:
            table.add_column(name, justify="right" if name in NUMERIC else "left", overflow="fold")
        for row in rows:
            *plain, verdict = row
            table.add_row(*(Text(cell) for cell in plain), Text(verdict, style=STYLES.get(verdict, "")))
        console.print(table)
    elif rows:
        console.file.write("".join(line + "\n" for line in plain_table(COLUMNS, rows, NUMERIC)))
    for style, line in _remarks(diff):
        if console.is_terminal:
            console.print(Text(line, style=style), soft_wrap=True)
        else:
            console.file.write(line + "\n")


def _cells(variant: VariantDiff) -> list[str]:
    return [
        printable(variant.variant),
        variant.statistic or quantities.ABSENT,
        quantities.milliseconds(variant.old_ms),
        quantities.milliseconds(variant.new_ms),
        quantities.change(variant.ratio),
        quantities.interval(variant.low, variant.high),
        variant.latency,
    ]


def _remarks(diff: SummaryDiff) -> list[tuple[str, str]]:
    remarks = [
        ("bold red" if variant.is_worse else "", f"{variant.variant}: {text}")
        for variant in diff.variants
        for text in variant.changes
    ]
    remarks += [("green", f"added: {name}") for name in diff.added]
    remarks += [("yellow", f"removed: {name}") for name in diff.removed]
    remarks += [("", note) for note in diff.notes]
    return [(style, printable(line)) for style, line in remarks]
