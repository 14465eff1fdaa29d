"""Which shared stores ``tvmake records pull`` and ``push`` mean, and what they say."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from tvmake.cli.configs import DEFAULTS, config_files, overlay
from tvmake.errors import InputError, UsageError

if TYPE_CHECKING:
    from tvmake.records.shared import Exchanged
    from tvmake.records.store import RecordStore

REFUSED_SHOWN = 20


def exchange(
    command: Literal["pull", "push"],
    shared: str | None,
    config: list[Path] | None,
    settings: list[str] | None,
    store: Path | None,
    generation: str | None,
) -> None:
    """Bring the records of shared stores here, or those here there, and say what arrived.

    Args:
        shared: the shared store; the config's when None.
        generation: whose records; the installed TVM's when None.

    Raises:
        UsageError: nothing names a shared store.
        InputError: the config is wrong, or a local store is no directory.
    """
    from tvmake.records import shared as sharing
    from tvmake.records.record import current_generation

    wanted = generation or current_generation()
    for url, opened in _exchanges(command, shared, config, settings, store):
        done = sharing.Exchanged()
        if command == "pull":
            places, carry, what = sharing.places(url, wanted, done), sharing.pull, f"{opened.root} from {url}"
        else:
            places = [place for place in opened.places() if place.generation == wanted]
            carry, what = sharing.push, f"{url} from {opened.root}"
        for place in places:
            done.add(carry(opened, url, place))
        _say(what, done, len(places))


def _exchanges(
    command: str, shared: str | None, config: list[Path] | None, settings: list[str] | None, store: Path | None
) -> "list[tuple[str, RecordStore]]":
    """The shared stores and the local ones they go with: what the command line says, else what the config does."""
    from tvmake.records.store import open_store

    if shared is not None:
        return [(shared, open_store(store))]
    if not config and not any(path.is_file() for path in DEFAULTS):
        raise UsageError(
            f"tvmake records {command}",
            f"no shared store is named, and there is no {DEFAULTS[0]} here",
            "give --shared with a directory or URL, or a config with -c that has tuning.shared",
        )
    return [(url, open_store(store or own)) for url, own in _configured(config_files(config), settings)]


def _say(what: str, done: "Exchanged", places: int) -> None:
    """One line of what arrived, and a warning for each segment left out."""
    from tvmake.cli.record_tables import printable

    typer.echo(f"{what}: {done.records} new records and verdicts in {done.segments} segments; {places} places")
    for name, reason in done.refused[:REFUSED_SHOWN]:
        typer.echo(f"warning: {printable(name)}: {printable(reason)}", err=True)
    if len(done.refused) > REFUSED_SHOWN:
        typer.echo(f"warning: {len(done.refused) - REFUSED_SHOWN} further segments left out", err=True)


def _configured(files: list[Path], settings: list[str] | None) -> list[tuple[str, str | None]]:
    from tvmake.config.load import load_layers
    from tvmake.plan.plan import Plan

    plan = Plan(load_layers(files, overlay(settings)))
    options = [plan.tuning(target) for target in plan.config.targets]
    found = dict.fromkeys((one.shared, one.store) for one in options if one.shared)
    if not found:
        raise InputError(
            ", ".join(map(str, files)),
            "names no shared store",
            "set tuning.shared, or give --shared with a directory or URL",
        )
    return list(found)
