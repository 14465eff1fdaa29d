"""``tvmake records …``: list, exchange and prune tuning records."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvmake.cli.configs import AsJson, ConfigFiles, Settings
from tvmake.cli.terminal import output_file, print_json
from tvmake.process.output import counted, printable

if TYPE_CHECKING:
    from tvmake.records.sharing.ingest import IngestReport
    from tvmake.records.store import RecordStore

app = typer.Typer(no_args_is_help=True, help="List, exchange and prune tuning records.")

Store = Annotated[
    Path | None,
    typer.Option("--store", help="Directory of the records [default: the user's, see docs/concepts/records.md]."),
]
Shared = Annotated[
    str | None, typer.Option("--shared", metavar="URL", help="Shared store [default: tuning.shared of the config].")
]
Installed = Annotated[str | None, typer.Option("--generation", help="TVM generation [default: the installed one].")]
OfContext = Annotated[
    str | None, typer.Option("--place", metavar="DIGEST", help="Only this context: 8 or more digits.")
]
Generation = Annotated[str | None, typer.Option(help="Only this TVM generation: tvm-0.27.0.post1 …")]


@app.command("list")
def list_command(store: Store = None, as_json: AsJson = False) -> None:
    """List the contexts that have records: TVM generation, target and device class."""
    from tvmake.cli.records import tables as record_tables
    from tvmake.records.summary import context_row, summarise

    opened = _store(store)
    rows = []
    for context in opened.contexts():
        summaries = [summarise(opened, context, workload) for workload in opened.workloads(context)]
        rows.append(context_row(context, summaries))
    _print(record_tables.print_places, rows, as_json, f"no records in {opened.root}")


@app.command("show")
def show_command(
    workload: Annotated[
        str | None, typer.Argument(metavar="WORKLOAD", help="The workload's key, or its first 8 or more digits.")
    ] = None,
    store: Store = None,
    context: OfContext = None,
    generation: Generation = None,
    count: Annotated[int, typer.Option("--count", "-n", min=0, help="Number of best records to show.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Show one workload: its best records, and why others failed. With --json also their traces.

    Without a workload: the best latency and the trials by outcome of each workload, the slowest first.
    """
    from tvmake.cli.records import tables as record_tables
    from tvmake.records.summary import select_workloads, summarise, workload_details, workload_row

    opened = _store(store)
    if workload is None:
        summaries = [summarise(opened, *key) for key in select_workloads(opened, (), context, generation)]
        summaries.sort(key=lambda summary: -(summary.latency_ms or 0))
        rows = [workload_row(summary) for summary in summaries]
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
        list[str] | None, typer.Option("--workload", metavar="KEY", help="Only this workload; repeatable.")
    ] = None,
    store: Store = None,
    context: OfContext = None,
    generation: Generation = None,
    as_json: AsJson = False,
) -> None:
    """Write records to a file for `tvmake records import` on another machine."""
    from tvmake.errors import InputError
    from tvmake.records.sharing.exchange import export_records
    from tvmake.records.sharing.portable import is_records
    from tvmake.records.summary import select_workloads
    from tvmake.storage.destinations import check_destination

    check_destination(file, "file of records", is_records)
    opened = _store(store)
    chosen = select_workloads(opened, workloads or (), context, generation)
    if not chosen:
        raise InputError(str(opened.root), "has no such records", "`tvmake records list` lists all records")
    lines = export_records(opened, chosen, file)
    if as_json:
        print_json({"file": str(file), "lines": lines, "workloads": len(chosen)})
    else:
        typer.echo(f"{file}: {counted(lines, 'line')} of {counted(len(chosen), 'workload')}")


@app.command("import")
def import_command(
    source: Annotated[
        Path, typer.Argument(help="File that `tvmake records export` wrote, or the directory of another store.")
    ],
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Add the records of a file or of another store. Invalid records are set aside, with the reason."""
    from tvmake.records.sharing.exchange import import_records, merge
    from tvmake.records.store import RecordStore

    opened = _store(store)
    ingested = merge(opened, RecordStore(source)) if source.is_dir() else import_records(opened, source)
    _print_report(str(source), ingested, as_json)


@app.command("pull")
def pull_command(
    shared: Shared = None,
    config: ConfigFiles = None,
    settings: Settings = None,
    store: Store = None,
    generation: Installed = None,
    as_json: AsJson = False,
) -> None:
    """Copy the records of a shared store here. A search does this itself for its target and device."""
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
    """Add the records here to a shared store. A search does this itself for its kernel."""
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
        bool, typer.Option("--other-generations", help="Drop records of TVM generations other than the installed one.")
    ] = False,
    apply: Annotated[
        bool, typer.Option("--apply", help="Drop them; without it, only show what would be dropped.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Drop records that are no longer needed. Tuning treats dropped candidates as untried."""
    from datetime import UTC

    from tvmake.cli.records.tables import print_pruned
    from tvmake.errors import UsageError
    from tvmake.records.prune import Rules, prune
    from tvmake.records.record import current_generation

    if keep_best is None and failures_before is None and not other_generations:
        raise UsageError(
            "tvmake records prune",
            "no rule for records to drop",
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
    """Check every line of the store; exit with 1 on errors. Changes nothing."""
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


def _print(table: Any, rows: list[dict[str, Any]], as_json: bool, empty: str) -> None:
    if as_json:
        print_json(rows)
    elif rows:
        table(rows)
    else:
        typer.echo(empty)


def _print_report(source: str, ingested: "IngestReport", as_json: bool) -> None:
    from tvmake.cli.records.tables import brief_target
    from tvmake.records.record import current_generation
    from tvmake.records.sharing.ingest import as_row

    if as_json:
        print_json({"source": source, **as_row(ingested)})
        return
    fresh, workloads = sum(ingested.fresh.values()), len(ingested.fresh)
    typer.echo(
        f"{source}: {counted(fresh, 'new line')} of {counted(workloads, 'workload')}, {ingested.known} already known"
    )
    for context in ingested.contexts:
        lines = sum(count for (origin, _), count in ingested.fresh.items() if origin == context)
        typer.echo(f"  {lines} for {printable(f'{brief_target(context.target)} on {context.device_class}')}")
    others = sorted({context.generation for context in ingested.contexts} - {current_generation()})
    if others:
        typer.echo(
            f"note: some come from {', '.join(others)}; they are stored separately and not used by {current_generation()}",
            err=True,
        )
    for reason, count in ingested.refused.most_common():
        typer.echo(f"warning: {counted(count, 'line')} set aside: {printable(reason)}", err=True)
    if ingested.quarantine:
        typer.echo(f"  see {ingested.quarantine}", err=True)
