"""Tables of ``tvmake records``."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tvmake.cli.terminal import open_console
from tvmake.process.output import counted, printable

if TYPE_CHECKING:
    from tvmake.records.prune import PruneResult
    from tvmake.records.verify import VerifyReport

SHORT = 12
"""Digits of a digest in tables."""

ERRORS_SHOWN = 5

FINDINGS_SHOWN = 20

TARGET_SHOWN = ("tag", "kind", "mcpu", "mtriple", "arch", "model")
"""Attributes of a target in tables, in this order."""


def print_places(rows: list[dict[str, Any]]) -> None:
    """The table of ``tvmake records list``."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("place", "target", "device class", "generation"):
        table.add_column(column, overflow="fold", no_wrap=column == "place")
    for column in ("workloads", "trials", "ok"):
        table.add_column(column, justify="right")
    table.add_column("last (UTC)", no_wrap=True)
    table.add_column("others")
    for row in rows:
        cells = (row["place"][:SHORT], brief_target(row["target"]), row["device_class"], row["generation"])
        figures = (row["workloads"], sum(row["trials"].values()), row["trials"].get("ok", 0))
        table.add_row(
            *_texts(*cells), *map(str, figures), *_texts(_day(row["last_measured_at"]), _others(row["trials"]))
        )
    open_console().print(table)


def print_workloads(rows: list[dict[str, Any]]) -> None:
    """The table of ``tvmake records show`` without a workload."""
    from rich.table import Table

    several = len({row["place"] for row in rows}) > 1
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("workload", "name", *(("place",) if several else ())):
        table.add_column(column, overflow="fold", no_wrap=column != "name")
    for column in ("best ms", "trials", "ok"):
        table.add_column(column, justify="right")
    table.add_column("last (UTC)", no_wrap=True)
    table.add_column("others")
    for row in rows:
        trials = row["trials"]
        cells = (row["workload"][:SHORT], row["name"] or "-", *((row["place"][:SHORT],) if several else ()))
        figures = (_ms(row["latency_ms"]), str(sum(trials.values())), str(trials.get("ok", 0)))
        table.add_row(*_texts(*cells), *figures, *_texts(_day(row["last_measured_at"]), _others(trials)))
    open_console().print(table)


def print_details(workloads: list[dict[str, Any]]) -> None:
    """The page of ``tvmake records show`` for one workload."""
    from rich.table import Table

    from tvmake.artifact.size_points import describe_sizes

    console = open_console()
    for number, row in enumerate(workloads):
        lines = {
            "workload": row["workload"],
            "name": row["name"] or "-",
            "place": f"{row['place'][:SHORT]} ({row['generation']}, {row['device_class']})",
            "target": row["target"],
            "trials": ", ".join(f"{count} {outcome}" for outcome, count in row["trials"].items()) or "none",
        }
        if points := [point for record in row["records"][:1] for point in record["points"]]:
            lines["sizes"] = "; ".join(describe_sizes(point["sizes"]) for point in points)
        if number:
            console.print()
        for key, value in lines.items():
            console.print(*_texts(f"{key:<9} {value}"), soft_wrap=True)
        if row["records"]:
            table = Table(box=None, pad_edge=False, header_style="bold")
            is_compared = any(record["compared_ms"] for record in row["records"])
            again = ["again, min ms"] if is_compared else []
            named = ["record", "trial", "median ms", "min ms", "max ms", *again, "strategy", "measured (UTC)", "output"]
            for column in named:
                table.add_column(column, justify="right" if column.endswith(("trial", "ms")) else "left")
            for record in row["records"]:
                low, high = min(record["samples_ms"]), max(record["samples_ms"])
                checked = "right" if record["verdict"] else "not checked"
                cells = (record["strategy"], _minute(record["measured_at"]), checked)
                figures = [str(record["trial"]), _ms(record["latency_ms"]), _ms(low), _ms(high)]
                if is_compared:
                    figures.append(_ms(min(record["compared_ms"])) if record["compared_ms"] else "-")
                table.add_row(record["record"][:SHORT], *figures, *_texts(*cells))
            console.print()
            console.print(table)
        if row["errors"]:
            console.print()
            for error in row["errors"][:ERRORS_SHOWN]:
                console.print(*_texts(f"{error['count']}x {error['outcome']}: {error['error']}"), soft_wrap=True)


def print_pruned(pruned: "Sequence[PruneResult]", applied: bool) -> None:
    """Print the records that ``tvmake records prune`` dropped or would drop."""
    from rich.table import Table

    console = open_console()
    if pruned:
        table = Table("generation", "place", "workload", box=None, pad_edge=False, header_style="bold")
        table.add_column("drop", justify="right")
        table.add_column("keep", justify="right")
        for entry in pruned:
            names = _texts(entry.context.generation, entry.context.digest[:SHORT], entry.workload[:SHORT])
            table.add_row(*names, str(entry.dropped), str(entry.kept))
        console.print(table)
    total = sum(entry.dropped for entry in pruned)
    outcome = "dropped" if applied else "would be dropped"
    console.print(f"{counted(total, 'record')} {outcome}", highlight=False)
    if pruned and not applied:
        console.print("run it again with --apply to drop them", style="dim")


def print_verified(verified: "VerifyReport") -> None:
    """The summary of ``tvmake records verify``."""
    console = open_console()
    for path, reason in verified.findings[:FINDINGS_SHOWN]:
        console.print(*_texts(f"{path}: {reason}"), soft_wrap=True)
    if len(verified.findings) > FINDINGS_SHOWN:
        console.print(f"… and {len(verified.findings) - FINDINGS_SHOWN} more")
    console.print(
        f"{counted(verified.records, 'record')}, {counted(verified.verdicts, 'verdict')} and {counted(verified.comparisons, 'comparison')} of "
        f"{counted(verified.workloads, 'workload')} in {counted(verified.contexts, 'context')}; {counted(len(verified.findings), 'finding')}"
    )
    for count, problem in (
        (verified.duplicates, "duplicate lines, counted once"),
        (verified.cut_short, "files with an incomplete last line; the next write sets it aside"),
        (verified.set_aside, "invalid lines set aside earlier (quarantine.jsonl)"),
    ):
        if count:
            console.print(f"note: {count} {problem}", style="dim")


def brief_target(target: str) -> str:
    """The main attributes of a target."""
    try:
        attributes = json.loads(target)
        return " ".join(str(attributes[name]) for name in TARGET_SHOWN if attributes.get(name)) or target
    except (ValueError, TypeError, AttributeError):
        return target


def _others(trials: dict[str, int]) -> str:
    """Trials without a correct candidate, by outcome."""
    return ", ".join(f"{count} {outcome}" for outcome, count in trials.items() if outcome != "ok")


def _ms(value: float | None) -> str:
    """Format with four significant digits: 1.110, 0.001312."""
    return "-" if value is None else f"{value:#.4g}".rstrip(".")


def _minute(time: str) -> str:
    from datetime import UTC

    from tvmake.records.plausible import parse_time

    when = parse_time(time)
    return when.astimezone(UTC).strftime("%Y-%m-%d %H:%M") if when else time


def _day(time: str | None) -> str:
    return _minute(time)[:10] if time else "-"


def _texts(*cells: str) -> list[Any]:
    from rich.text import Text

    return [Text(printable(cell)) for cell in cells]
