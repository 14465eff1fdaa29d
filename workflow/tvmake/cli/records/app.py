"""``tvmake records …``: look at measured records, pass them on, take them in, tidy up."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvmake.cli.configs import AsJson, ConfigFiles, Settings
from tvmake.cli.output_file import output_file
from tvmake.cli.terminal import print_json
from tvmake.process.output import counted, printable

if TYPE_CHECKING:
    from tvmake.records.sharing.ingest import IngestReport
    from tvmake.records.store import RecordStore

app = typer.Typer(no_args_is_help=True, help="Look at, pass on and tidy up the records of tuning.")

Store = Annotated[
    Path | None,
    typer.Option("--store", help="Directory of the records [default: the user's, see docs/concepts/records.md]."),
]
Shared = Annotated[
    str | None, typer.Option("--shared", metavar="URL", help="The shared store [default: tuning.shared of the config].")
]
Installed = Annotated[str | None, typer.Option("--generation", help="A TVM generation [default: the installed one].")]
InPlace = Annotated[str | None, typer.Option("--place", metavar="DIGEST", help="Only this context: 8 or more digits.")]
Generation = Annotated[str | None, typer.Option(help="Only this TVM generation: tvm-0.27.0.post1 …")]


@app.command("list")
def list_command(store: Store = None, as_json: AsJson = False) -> None:
    """List the contexts that have records: TVM generation, target and device class."""
    from tvmake.cli.records import tables as record_tables
    from tvmake.records.summary import context_row, summarise

    opened = _store(store)
    rows = []
    for context in opened.contexts():
        found = [summarise(opened, context, workload) for workload in opened.workloads(context)]
        rows.append(context_row(context, found))
    _print(record_tables.print_places, rows, as_json, f"no records in {opened.root}")


@app.command("show")
def show_command(
    workload: Annotated[
        str | None, typer.Argument(metavar="[WORKLOAD]", help="The workload's key, or its first 8 or more digits.")
    ] = None,
    store: Store = None,
    context: InPlace = None,
    generation: Generation = None,
    count: Annotated[int, typer.Option("--count", "-n", min=0, help="How many of the best records to show.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Show one workload: its best records, and why others failed. With --json, their traces too.

    Without a workload: the best latency of each, and its trials by outcome; the slowest workloads first.
    """
    from tvmake.cli.records import tables as record_tables
    from tvmake.records.summary import select_workloads, summarise, workload_details, workload_row

    opened = _store(store)
    if workload is None:
        found = [summarise(opened, *key) for key in select_workloads(opened, (), context, generation)]
        found.sort(key=lambda summary: -(summary.latency_ms or 0))
        rows = [workload_row(summary) for summary in found]
        _print(record_tables.print_workloads, rows, as_json, f"no records in {opened.root}")
        return
    details = [
        workload_details(opened, *key, count) for key in select_workloads(opened, [workload], context, generation)
    ]
    _print(record_tables.print_details, details, as_json, "")


@app.command("export")
def export_command(
    file: Annotated[Path, typer.Argument(parser=output_file, help="File to write (.jsonl.gz).")],
    workloads: Annotated[
        list[str] | None, typer.Option("--workload", metavar="KEY", help="Only this workload; may be repeated.")
    ] = None,
    store: Store = None,
    context: InPlace = None,
    generation: Generation = None,
    as_json: AsJson = False,
) -> None:
    """Write records to one file that `tvmake records import` reads on another machine."""
    from tvmake.errors import InputError
    from tvmake.records.sharing.exchange import export_records
    from tvmake.records.sharing.portable import is_records
    from tvmake.records.summary import select_workloads
    from tvmake.storage.destinations import check_destination

    check_destination(file, "file of records", is_records)
    opened = _store(store)
    chosen = select_workloads(opened, workloads or (), context, generation)
    if not chosen:
        raise InputError(str(opened.root), "holds no such records", "`tvmake records list` shows what is there")
    held = export_records(opened, chosen, file)
    if as_json:
        print_json({"file": str(file), "lines": held, "workloads": len(chosen)})
    else:
        typer.echo(f"{file}: {counted(held, 'line')} of {counted(len(chosen), 'workload')}")


@app.command("import")
def import_command(
    source: Annotated[
        Path, typer.Argument(help="File that `tvmake records export` wrote, or the directory of another store.")
    ],
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Add the records of a file or of another store. Each is checked; what cannot be right is set aside with the reason."""
    from tvmake.records.sharing.exchange import import_records, merge
    from tvmake.records.store import RecordStore

    opened = _store(store)
    ingested = merge(opened, RecordStore(source)) if source.is_dir() else import_records(opened, source)
    _print_ingested(str(source), ingested, as_json)


@app.command("pull")
def pull_command(
    shared: Shared = None,
    config: ConfigFiles = None,
    settings: Settings = None,
    store: Store = None,
    generation: Installed = None,
    as_json: AsJson = False,
) -> None:
    """Bring the records of a shared store here. A search does this by itself for its target and device."""
    from tvmake.cli.records.shared import exchange

    exchange("pull", shared, config, settings, store, generation, as_json)


@app.command("push")
def push_command(
    shared: Shared = None,
    config: ConfigFiles = None,
    settings: Settings = None,
    store: Store = None,
    generation: Installed = None,
    as_json: AsJson = False,
) -> None:
    """Add the records that are here to a shared store. A search does this by itself for its kernel."""
    from tvmake.cli.records.shared import exchange

    exchange("push", shared, config, settings, store, generation, as_json)


@app.command("prune")
def prune_command(
    store: Store = None,
    keep_best: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Keep the N fastest measured records of each workload.")
    ] = None,
    failures_before: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], metavar="DATE", help="Drop failures measured before DATE (UTC)."),
    ] = None,
    other_generations: Annotated[
        bool, typer.Option("--other-generations", help="Drop the records of other TVM generations than the installed.")
    ] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Do it; without, only say what would be dropped.")] = False,
    as_json: AsJson = False,
) -> None:
    """Drop records that are not wanted any more. What is dropped counts as not tried when tuning goes on."""
    from datetime import UTC

    from tvmake.cli.records.tables import print_pruned
    from tvmake.errors import UsageError
    from tvmake.records.prune import Rules, prune
    from tvmake.records.record import current_generation

    if keep_best is None and failures_before is None and not other_generations:
        raise UsageError(
            "tvmake records prune",
            "nothing says what to drop",
            "give --keep-best, --failures-before or --other-generations",
        )
    rules = Rules(
        keep_best=keep_best,
        failures_before=failures_before and failures_before.replace(tzinfo=UTC),
        keep_generation=current_generation() if other_generations else None,
    )
    pruned = prune(_store(store), rules, apply)
    if as_json:
        rows = [
            {
                "generation": entry.context.generation,
                "place": entry.context.digest,
                "workload": entry.workload,
                "drop": entry.dropped,
                "keep": entry.kept,
            }
            for entry in pruned
        ]
        print_json({"applied": apply, "workloads": rows})
    else:
        print_pruned(pruned, apply)


@app.command("verify")
def verify_command(store: Store = None, as_json: AsJson = False) -> None:
    """Check every line of the store; exit with 1 if anything is wrong. Nothing is changed."""
    from tvmake.cli.records.tables import print_verified
    from tvmake.records.verify import as_row, verify

    opened = _store(store)
    verified = verify(opened)
    if as_json:
        print_json({"store": str(opened.root), **as_row(verified)})
    else:
        print_verified(verified)
    raise typer.Exit(1 if verified.findings else 0)


def _store(root: Path | None) -> "RecordStore":
    from tvmake.records.store import open_store

    return open_store(root)


def _print(table: Any, rows: list[dict[str, Any]], as_json: bool, nothing: str) -> None:
    if as_json:
        print_json(rows)
    elif rows:
        table(rows)
    else:
        typer.echo(nothing)


def _print_ingested(source: str, ingested: "IngestReport", as_json: bool) -> None:
    from tvmake.cli.records.tables import brief_target
    from tvmake.records.record import current_generation
    from tvmake.records.sharing.ingest import as_row

    if as_json:
        print_json({"source": source, **as_row(ingested)})
        return
    fresh, workloads = sum(ingested.fresh.values()), len(ingested.fresh)
    typer.echo(
        f"{source}: {counted(fresh, 'new line')} of {counted(workloads, 'workload')}, {ingested.known} known before"
    )
    for context in ingested.contexts:
        held = sum(count for (origin, _), count in ingested.fresh.items() if origin == context)
        typer.echo(f"  {held} for {printable(f'{brief_target(context.target)} on {context.device_class}')}")
    others = sorted({context.generation for context in ingested.contexts} - {current_generation()})
    if others:
        typer.echo(
            f"note: some are of {', '.join(others)}; they are kept apart and not used by {current_generation()}",
            err=True,
        )
    for reason, count in ingested.refused.most_common():
        typer.echo(f"warning: {counted(count, 'line')} set aside: {printable(reason)}", err=True)
    if ingested.quarantine:
        typer.echo(f"  see {ingested.quarantine}", err=True)
