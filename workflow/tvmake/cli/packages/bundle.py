"""``tvmake bundle …``: export and import a run in one file."""

from pathlib import Path
from typing import Annotated

import typer

from tvmake.cli.configs import AsJson, ConfigFiles, Settings
from tvmake.cli.terminal import output_file, print_json
from tvmake.process.output import counted, printable

app = typer.Typer(no_args_is_help=True, help="Move a run to another site: config, lock, records and packages.")


@app.command("export")
def export_command(
    file: Annotated[Path, typer.Argument(parser=output_file, help="Bundle to write (.tar).")],
    lock: Annotated[Path, typer.Option(help="Lock of the run, from `tvmake lock`.", dir_okay=False)] = Path("run.lock"),
    inputs: Annotated[
        bool, typer.Option("--inputs", help="Include the model files and the modules of passes.")
    ] = False,
    config: ConfigFiles = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Write a bundle of a locked run. Equal runs give equal bytes."""
    from tvmake.bundle.contents import PACKAGES, RECORDS
    from tvmake.bundle.read import is_bundle
    from tvmake.bundle.write import write_bundle
    from tvmake.cli.configs import config_files, load_plan
    from tvmake.storage.destinations import check_destination

    check_destination(file, "bundle", is_bundle)
    plan = load_plan(config_files(config), settings)
    contents = write_bundle(plan, lock, file, with_inputs=inputs)
    packages = sum(name.startswith(PACKAGES) and name.endswith("/package.tar") for name in contents.files)
    if as_json:
        size = file.stat().st_size
        holds_records = RECORDS in contents.files
        print_json({"file": str(file), "packages": packages, "records": holds_records, "inputs": inputs, "bytes": size})
        return
    records = "with tuning records" if RECORDS in contents.files else "without records"
    typer.echo(f"{file}: {counted(packages, 'package')}, {records}, {file.stat().st_size / 1e6:.1f} MB")
    if not inputs:
        typer.echo(
            "note: the models are not included (--inputs); without them packages can be used, but not rebuilt", err=True
        )


@app.command("import")
def import_command(
    file: Annotated[Path, typer.Argument(help="Bundle that `tvmake bundle export` wrote.")],
    into: Annotated[Path, typer.Option("--into", help="Directory for its files.", file_okay=False)] = Path(),
    store: Annotated[
        Path | None,
        typer.Option("--store", help="Directory of the records [default: the user's, see docs/concepts/records.md]."),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite existing files.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check a bundle, write its files, and add its records to the store. Existing files are not overwritten."""
    from tvmake.bundle.read import read_bundle
    from tvmake.records.sharing.ingest import as_row
    from tvmake.records.store import open_store

    imported = read_bundle(file, into, open_store(store), replace=replace)
    if as_json:
        placed = {name: [*map(str, getattr(imported, name))] for name in ("placed", "unchanged", "replaced")}
        print_json({"file": str(file), **placed, "records": imported.records and as_row(imported.records)})
        return
    for path in imported.replaced:
        typer.echo(f"replaced {path}")
    typer.echo(
        f"{file}: {counted(len(imported.placed), 'file')} written to {into}, {len(imported.unchanged)} unchanged"
    )
    if imported.records is not None:
        fresh = sum(imported.records.fresh.values())
        typer.echo(f"records: {fresh} new, {imported.records.known} already known")
        for reason, count in imported.records.refused.most_common():
            typer.echo(
                f"warning: {counted(count, 'line')} set aside: {printable(reason)}; see {imported.records.quarantine}",
                err=True,
            )
