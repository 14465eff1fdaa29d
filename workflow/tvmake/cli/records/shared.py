"""``tvmake records pull`` and ``push``: choose the shared stores, and print the results."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from tvmake.cli.configs import DEFAULTS, config_files, load_plan
from tvmake.cli.terminal import print_json
from tvmake.errors import InputError, UsageError

if TYPE_CHECKING:
    from tvmake.records.sharing.shared import ExchangeReport
    from tvmake.records.store import RecordStore

REFUSED_SHOWN = 20


def exchange(
    command: Literal["pull", "push"],
    shared: str | None,
    config: list[Path] | None,
    settings: list[str] | None,
    store: Path | None,
    generation: str | None,
    as_json: bool = False,
) -> None:
    """Copy records from shared stores, or to them, and print the results.

    Args:
        shared: the shared store; None for the config's.
        generation: TVM generation of the records; None for the installed one.
        as_json: print JSON.

    Raises:
        UsageError: no shared store is named.
        InputError: the config is invalid, a local store is not a directory, or a shared one is invalid or missing.
    """
    from tvmake.records.record import current_generation
    from tvmake.records.sharing import shared as sharing
    from tvmake.storage.shared_directory import FileSystemDirectory, open_directory

    generation = generation or current_generation()
    rows = []
    for url, opened in _exchanges(command, shared, config, settings, store):
        remote = open_directory(url)
        if command == "pull" and shared and isinstance(remote, FileSystemDirectory) and not remote.root.exists():
            raise InputError(
                url, "no such directory", "name a directory or URL that `tvmake records push` has written to"
            )
        outcome = sharing.ExchangeReport()
        if command == "pull":
            contexts, copy_records, direction = (
                sharing.contexts(url, generation, outcome),
                sharing.pull,
                f"{opened.root} from {url}",
            )
        else:
            contexts = [context for context in opened.contexts() if context.generation == generation]
            copy_records, direction = sharing.push, f"{url} from {opened.root}"
        for context in contexts:
            outcome.add(copy_records(opened, url, context))
        if as_json:
            rows.append(
                {
                    "shared": url,
                    "store": str(opened.root),
                    "new": outcome.records,
                    "segments": outcome.segments,
                    "places": len(contexts),
                    "left_out": [{"segment": name, "reason": reason} for name, reason in outcome.refused],
                }
            )
        else:
            _print_outcome(direction, outcome, len(contexts))
    if as_json:
        print_json(rows)


def _exchanges(
    command: str, shared: str | None, config: list[Path] | None, settings: list[str] | None, store: Path | None
) -> "list[tuple[str, RecordStore]]":
    """The shared stores and their local stores: from the command line, else from the config."""
    from tvmake.records.store import open_store

    if shared is not None:
        return [(shared, open_store(store))]
    if not config and not any(path.is_file() for path in DEFAULTS):
        raise UsageError(
            f"tvmake records {command}",
            f"no shared store is named, and there is no {DEFAULTS[0]} here",
            "give --shared with a directory or URL, or a config with -c that has tuning.shared",
        )
    return [(url, open_store(store or local)) for url, local in _configured_stores(config_files(config), settings)]


def _print_outcome(direction: str, outcome: "ExchangeReport", contexts: int) -> None:
    """Print a line with the results, and a warning for each segment left out."""
    from tvmake.process.output import counted, printable

    typer.echo(
        f"{direction}: {counted(outcome.records, 'new line')} in {counted(outcome.segments, 'segment')}; {counted(contexts, 'context')}"
    )
    for name, reason in outcome.refused[:REFUSED_SHOWN]:
        typer.echo(f"warning: {printable(name)}: {printable(reason)}", err=True)
    if len(outcome.refused) > REFUSED_SHOWN:
        typer.echo(f"warning: {len(outcome.refused) - REFUSED_SHOWN} more segments left out", err=True)


def _configured_stores(files: list[Path], settings: list[str] | None) -> list[tuple[str, str | None]]:
    plan = load_plan(files, settings)
    options = [plan.context({"target": target}).tuning for target in plan.config.targets]
    stores = dict.fromkeys((tuning.shared, tuning.store) for tuning in options if tuning.shared)
    if not stores:
        raise InputError(
            ", ".join(map(str, files)),
            "names no shared store",
            "set tuning.shared, or give --shared with a directory or URL",
        )
    return list(stores)
