"""The summary in a terminal, or as plain text elsewhere."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tvmake.errors import GoalError
from tvmake.process.output import printable
from tvmake.report import quantities
from tvmake.report.cache_use import cache_text
from tvmake.report.console import SafeConsole
from tvmake.report.packages import package_line
from tvmake.report.rows import Summary, SummaryRow, counts_text, failed_line, missed_line, tuned_text

BASELINE = "× baseline"
UNSCHEDULED = "unscheduled"
UNMADE = ("failed", "not made")
COLUMNS = (
    "model",
    "target",
    "precision",
    "p50 ms",
    "p90 ms",
    BASELINE,
    "accuracy",
    "tuned",
    UNSCHEDULED,
    "size",
    "verdict",
)
NUMERIC = ("p50 ms", "p90 ms", BASELINE, "accuracy", UNSCHEDULED, "size")
NAMES = ("model", "target", "precision")
GAP = 2
"""Columns of the terminal between two of the table's."""

SPARED = ("p90 ms", UNSCHEDULED, "size", "accuracy", "tuned")
"""Columns that a narrow terminal does without, the first ones first; files and page have them."""

STYLES = {"pass": "green", "fail": "bold red", "not run": "yellow", "failed": "bold red", "not made": "yellow"}


def print_summary(summary: Summary, console: Console | None = None) -> None:
    """Print the table, then missed goals and warnings, one line each.

    ``accuracy`` is top-1, or the SQNR without labels. A terminal gets colours, and as many columns as fit; other outputs get
    plain text of any width.
    """
    console = console or SafeConsole()
    cells = [_cells(row) for row in summary.rows]
    if console.is_terminal:
        left_out = _left_out(cells, console.width)
        console.print(_rich_table(cells, left_out))
        if left_out:
            text = f"a wider terminal has {' and '.join(left_out)} too"
            console.print(Text(text, style="dim"), soft_wrap=True)
    else:
        console.file.write("".join(line + "\n" for line in plain_table(COLUMNS, cells, NUMERIC)))
    for style, line in _remarks(summary):
        if console.is_terminal:
            console.print(Text(line, style=style), soft_wrap=True)
        else:
            console.file.write(line + "\n")


def exit_code(summary: Summary) -> int:
    """4 if a variant missed its goals, or was not built; else 0."""
    return GoalError.exit_code if any(row.verdict in ("fail", *UNMADE) for row in summary.rows) else 0


def plain_table(columns: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[str] = ()) -> list[str]:
    """Lines of a table without colour; columns are as wide as their content, ``numeric`` ones flush right."""
    widths = [max(cell_len(text) for text in column) for column in zip(columns, *rows, strict=True)]

    def line(row: Sequence[str]) -> str:
        padded = []
        for name, text, width in zip(columns, row, widths, strict=True):
            fill = " " * (width - cell_len(text))
            padded.append(fill + text if name in numeric else text + fill)
        return "  ".join(padded).rstrip()

    return [line(row) for row in (columns, *rows)]


def _cells(row: SummaryRow) -> list[str]:
    accuracy = quantities.share(row.top1) if row.top1 is not None else quantities.level(row.sqnr_db)
    return [
        printable(row.model),
        printable(row.target),
        printable(row.precision),
        quantities.milliseconds(row.p50_ms),
        quantities.milliseconds(row.p90_ms),
        quantities.times_within(row.speedup, row.speedup_low, row.speedup_high).removesuffix(" ×"),
        accuracy,
        tuned_text(row),
        quantities.share(row.unscheduled_share, 0),
        quantities.size(row.package_bytes),
        row.verdict + (", best" if row.best else ""),
    ]


def _left_out(cells: Sequence[Sequence[str]], width: int) -> list[str]:
    """The columns to leave out so that the table fits into a terminal; all optional ones if it never fits."""
    widths = {name: max(map(cell_len, column)) for name, *column in zip(COLUMNS, COLUMNS, *cells, strict=True)}
    left_out: list[str] = []
    for name in SPARED:
        if sum(widths.values()) + GAP * (len(widths) - 1) <= width:
            break
        del widths[name]
        left_out.append(name)
    return left_out


def _rich_table(cells: list[list[str]], left_out: Sequence[str] = ()) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    shown = [name for name in COLUMNS if name not in left_out]
    for name in shown:
        # Names wrap if there is still too little space; figures and words do not.
        is_name = name in NAMES
        table.add_column(name, justify="right" if name in NUMERIC else "left", overflow="fold", no_wrap=not is_name)
    for row in cells:
        # Text, not str: rich would interpret brackets in a name as markup.
        texts = dict(zip(COLUMNS, (Text(cell) for cell in row), strict=True))
        texts["verdict"].stylize(STYLES[row[-1].partition(",")[0]])
        table.add_row(*(texts[name] for name in shown))
    return table


def _remarks(summary: Summary) -> list[tuple[str, str]]:
    failed = [("red", f"{row.variant}: {failed_line(row)}") for row in summary.rows if row.verdict in UNMADE]
    missed = [("red", f"{row.variant}: missed {missed_line(goal)}") for row in summary.rows for goal in row.missed]
    warnings = [("yellow", f"warning: {text}") for text in summary.warnings]
    warnings += [("yellow", f"warning: {row.variant}: {text}") for row in summary.rows for text in row.warnings]
    cache = [("", f"cache: {cache_text(summary.cache)}")] if summary.cache else []
    counts = [("", counts_text(summary))] if any(row.verdict in ("fail", *UNMADE) for row in summary.rows) else []
    chosen = [("", f"{row.variant}: {row.layer_precisions}") for row in summary.rows if row.layer_precisions]
    chosen += [("" if row.package else "red", f"{row.variant}: {package_line(row)}") for row in summary.packages]
    lines = failed + missed + warnings + chosen + _baseline_lines(summary) + cache + counts
    return [(style, printable(line)) for style, line in lines]


def _baseline_lines(summary: Summary) -> list[tuple[str, str]]:
    frameworks = dict.fromkeys(row.baseline for row in summary.rows if row.baseline)
    if not frameworks:
        return []
    return [("", f"{BASELINE}: times as fast as the model in {', '.join(map(str, frameworks))}; below 1 it is slower")]
