"""``tvmake records pull`` and ``push``: which shared stores they mean, and what they print."""

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
    """Bring the records of shared stores here, or those here there, and print what arrived.

    Args:
        shared: the shared store; the config's when None.
        generation: whose records; the installed TVM's when None.
        as_json: print for programs.

    Raises:
        UsageError: nothing names a shared store.
        InputError: the config is wrong, a local store is no directory, or a shared one is no address or not there.
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
                url, "no such directory", "name the directory or URL that `tvmake records push` brought records to"
            )
        outcome = sharing.ExchangeReport()
        if command == "pull":
            contexts, carry, what = (
                sharing.contexts(url, generation, outcome),
                sharing.pull,
                f"{opened.root} from {url}",
            )
        else:
            contexts = [context for context in opened.contexts() if context.generation == generation]
            carry, what = sharing.push, f"{url} from {opened.root}"
        for context in contexts:
            outcome.add(carry(opened, url, context))
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
            _print_outcome(what, outcome, len(contexts))
    if as_json:
        print_json(rows)


def _exchanges(
    command: str, shared: str | None, config: list[Path] | None, settings: list[str] | None, store: Path | None
) -> "list[tuple[str, RecordStore]]":
    """The shared stores and the local ones they go with: from the command line, else from the config."""
    from tvmake.records.store import open_store

    if shared is not None:
        return [(shared, open_store(store))]
    if not config and not any(path.is_file() for path in DEFAULTS):
        raise UsageError(
            f"tvmake records {command}",
            f"no shared store is named, and there is no {DEFAULTS[0]} here",
            "give --shared with a directory or URL, or a config with -c that has tuning.shared",
        )
    return [(url, open_store(store or local)) for url, local in _configured(config_files(config), settings)]


def _print_outcome(what: str, outcome: "ExchangeReport", contexts: int) -> None:
    """One line of what arrived, and a warning for each segment left out."""
    from tvmake.process.output import counted, printable

    typer.echo(
        f"{what}: {counted(outcome.records, 'new line')} in {counted(outcome.segments, 'segment')}; {counted(contexts, 'context')}"
    )
    for name, reason in outcome.refused[:REFUSED_SHOWN]:
        typer.echo(f"warning: {printable(name)}: {printable(reason)}", err=True)
    if len(outcome.refused) > REFUSED_SHOWN:
        typer.echo(f"warning: {len(outcome.refused) - REFUSED_SHOWN} further segments left out", err=True)


def _configured(files: list[Path], settings: list[str] | None) -> list[tuple[str, str | None]]:
    plan = load_plan(files, settings)
    options = [plan.context({"target": target}).tuning for target in plan.config.targets]
    found = dict.fromkeys((tuning.shared, tuning.store) for tuning in options if tuning.shared)
    if not found:
        raise InputError(
            ", ".join(map(str, files)),
            "names no shared store",
            "set tuning.shared, or give --shared with a directory or URL",
        )
    return list(found)
