"""Records as tables for people and as plain values for programs."""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from tvmake.records.prune import Pruned
    from tvmake.records.record import Place
    from tvmake.records.standing import Standing
    from tvmake.records.store import RecordStore, StoredRecord
    from tvmake.records.verify import Verified

SHORT = 12
"""Digits of a digest in tables."""

ERRORS_SHOWN = 5

FINDINGS_SHOWN = 20

PIPED_WIDTH = 400

TARGET_SHOWN = ("tag", "kind", "mcpu", "mtriple", "arch", "model")
"""What of a target is worth a look, in this order."""


def place_row(place: "Place", workloads: "Sequence[Standing]") -> dict[str, Any]:
    """A place and the sums over its workloads."""
    from tvmake.records.standing import latest

    trials: Counter[str] = Counter()
    for one in workloads:
        trials.update(one.trials)
    return {
        "place": place.digest,
        "generation": place.generation,
        "target": place.target,
        "device_class": place.device_class,
        "workloads": len(workloads),
        "trials": dict(trials),
        "last_measured_at": latest(one.last for one in workloads if one.last),
    }


def workload_row(standing: "Standing") -> dict[str, Any]:
    """A workload, its best latency and its trials."""
    return {
        "workload": standing.workload,
        "name": standing.name,
        "place": standing.place.digest,
        "generation": standing.place.generation,
        "device_class": standing.place.device_class,
        "latency_ms": standing.latency_ms,
        "trials": standing.trials,
        "last_measured_at": standing.last,
        "best": standing.best.digest if standing.best else None,
    }


def details(store: "RecordStore", place: "Place", workload: str, count: int) -> dict[str, Any]:
    """A workload, its ``count`` best records and the errors of those that failed."""
    from tvmake.records.standing import ranked, standing

    stored = store.load(place, workload)
    trials = {one.digest: number for number, one in enumerate(stored, start=1)}
    errors = Counter((one.outcome, _reason(one)) for one in stored if one.outcome != "ok")
    return {
        **workload_row(standing(store, place, workload)),
        "target": place.target,
        "records": [{"trial": trials[one.digest], **_record(one)} for one in ranked(stored)[:count]],
        "errors": [
            {"outcome": outcome, "error": reason, "count": number} for (outcome, reason), number in errors.most_common()
        ],
    }


def print_places(rows: list[dict[str, Any]]) -> None:
    """The table of ``tvmake records list``."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("place", "target", "device class", "generation"):
        table.add_column(column, overflow="fold", no_wrap=column == "place")
    for column in ("workloads", "trials", "ok"):
        table.add_column(column, justify="right")
    table.add_column("last (UTC)", no_wrap=True)
    for row in rows:
        cells = (row["place"][:SHORT], brief_target(row["target"]), row["device_class"], row["generation"])
        figures = (row["workloads"], sum(row["trials"].values()), row["trials"].get("ok", 0))
        table.add_row(*_texts(*cells), *map(str, figures), *_texts(_day(row["last_measured_at"])))
    _console().print(table)


def print_workloads(rows: list[dict[str, Any]]) -> None:
    """The table of ``tvmake records top``."""
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
        others = ", ".join(f"{count} {outcome}" for outcome, count in trials.items() if outcome != "ok")
        figures = (_ms(row["latency_ms"]), str(sum(trials.values())), str(trials.get("ok", 0)))
        table.add_row(*_texts(*cells), *figures, *_texts(_day(row["last_measured_at"]), others))
    _console().print(table)


def print_details(found: list[dict[str, Any]]) -> None:
    """The page of ``tvmake records show``."""
    from rich.table import Table

    console = _console()
    for number, row in enumerate(found):
        lines = {
            "workload": row["workload"],
            "name": row["name"] or "-",
            "place": f"{row['place'][:SHORT]} ({row['generation']}, {row['device_class']})",
            "target": row["target"],
            "trials": ", ".join(f"{count} {outcome}" for outcome, count in row["trials"].items()) or "none",
        }
        if number:
            console.print()
        for key, value in lines.items():
            console.print(*_texts(f"{key:<9} {value}"), soft_wrap=True)
        if row["records"]:
            table = Table(box=None, pad_edge=False, header_style="bold")
            for column in ("record", "trial", "median ms", "min ms", "max ms", "strategy", "measured (UTC)", "output"):
                table.add_column(column, justify="right" if column.endswith(("trial", "ms")) else "left")
            for record in row["records"]:
                low, high = min(record["samples_ms"]), max(record["samples_ms"])
                checked = "right" if record["verdict"] else "not checked"
                cells = (record["strategy"], _minute(record["measured_at"]), checked)
                figures = (str(record["trial"]), _ms(record["latency_ms"]), _ms(low), _ms(high))
                table.add_row(record["record"][:SHORT], *figures, *_texts(*cells))
            console.print()
            console.print(table)
        if row["errors"]:
            console.print()
            for error in row["errors"][:ERRORS_SHOWN]:
                console.print(*_texts(f"{error['count']}x {error['outcome']}: {error['error']}"), soft_wrap=True)


def print_pruned(pruned: "Sequence[Pruned]", applied: bool) -> None:
    """What ``tvmake records prune`` dropped or would drop."""
    from rich.table import Table

    console = _console()
    if pruned:
        table = Table("generation", "place", "workload", box=None, pad_edge=False, header_style="bold")
        table.add_column("drop", justify="right")
        table.add_column("keep", justify="right")
        for one in pruned:
            names = _texts(one.place.generation, one.place.digest[:SHORT], one.workload[:SHORT])
            table.add_row(*names, str(one.dropped), str(one.kept))
        console.print(table)
    total = sum(one.dropped for one in pruned)
    say = "dropped" if applied else "would be dropped"
    console.print(f"{total} records {say}", highlight=False)
    if pruned and not applied:
        console.print("run it again with --apply to drop them", style="dim")


def print_verified(verified: "Verified") -> None:
    """The summary of ``tvmake records verify``."""
    console = _console()
    for path, reason in verified.findings[:FINDINGS_SHOWN]:
        console.print(*_texts(f"{path}: {reason}"), soft_wrap=True)
    if len(verified.findings) > FINDINGS_SHOWN:
        console.print(f"… and {len(verified.findings) - FINDINGS_SHOWN} more")
    console.print(
        f"{verified.records} records and {verified.verdicts} verdicts of {verified.workloads} workloads in "
        f"{verified.places} places; {len(verified.findings)} findings"
    )
    for count, what in (
        (verified.duplicates, "lines are there twice and count once"),
        (verified.cut_short, "files end in a line that is not finished; the next write sets it aside"),
        (verified.set_aside, "bad lines were set aside before (quarantine.jsonl)"),
    ):
        if count:
            console.print(f"note: {count} {what}", style="dim")


def brief_target(target: str) -> str:
    """A target's telling attributes."""
    try:
        attributes = json.loads(target)
        return " ".join(str(attributes[name]) for name in TARGET_SHOWN if attributes.get(name)) or target
    except (ValueError, TypeError, AttributeError):
        return target


def printable(text: str) -> str:
    """Text from a file of others, without what a terminal would obey."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)


def _record(stored: "StoredRecord") -> dict[str, Any]:
    record = stored.record
    return {
        "record": stored.digest,
        "latency_ms": stored.latency_ms,
        "samples_ms": [sample * 1e3 for sample in record.samples_s],
        "measured_at": record.measured_at,
        "strategy": record.strategy,
        "cost_model": record.cost_model,
        "seed": record.seed,
        "batch": record.batch,
        "device": record.device.model_dump(mode="json"),
        "verdict": stored.verdict.model_dump(mode="json") if stored.verdict else None,
        "trace": record.trace,
    }


def _reason(stored: "StoredRecord") -> str:
    if stored.outcome != stored.status and stored.verdict:
        return stored.verdict.reason
    return stored.record.error or ""


def _ms(value: float | None) -> str:
    """Four digits that count, so that equal columns can be compared: 1.110, 0.001312."""
    return "-" if value is None else f"{value:#.4g}".rstrip(".")


def _minute(time: str) -> str:
    from datetime import UTC

    from tvmake.records.plausible import moment

    when = moment(time)
    return when.astimezone(UTC).strftime("%Y-%m-%d %H:%M") if when else time


def _day(time: str | None) -> str:
    return _minute(time)[:10] if time else "-"


def _texts(*cells: str) -> list[Any]:
    from rich.text import Text

    return [Text(printable(cell)) for cell in cells]


def _console() -> "Console":
    from rich.console import Console

    # One line a row where a program reads along.
    return Console(width=None if sys.stdout.isatty() else PIPED_WIDTH, highlight=False)
