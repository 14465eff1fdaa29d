"""``tvmake cache …``: what is in the cache, whether it is intact, and tidying up."""

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvmake.cache import loaded  # noqa: F401  # notes when code was loaded
from tvmake.cli.configs import ConfigFiles, Settings

if TYPE_CHECKING:
    from tvmake.cache.store import Store
    from tvmake.config.cache import CacheConfig

app = typer.Typer(no_args_is_help=True, help="Look at, check and tidy up the cache of results.")

Where = Annotated[
    str | None,
    typer.Option(
        "--cache",
        metavar="WHERE",
        help="A directory or URL [default: TVMAKE_CACHE, else the config's, else the user's].",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

DAY_S = 86400.0


@app.command("info")
def info_command(
    key: Annotated[str | None, typer.Argument(help="One entry: its key, or the first 8 or more digits.")] = None,
    where: Where = None,
    config: ConfigFiles = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Show what the cache holds, by stage; or what one entry was made of."""
    with _opened(where, config, settings) as (wanted, store, secret):
        if key is not None:
            typer.echo(json.dumps(_details(store, key, secret), indent=2, ensure_ascii=False))
            return
        known = _summary(wanted, store, secret)
    if as_json:
        typer.echo(json.dumps(known, indent=2))
    else:
        _print_summary(known)


@app.command("verify")
def verify_command(where: Where = None, config: ConfigFiles = None, settings: Settings = None) -> None:
    """Check every byte; put what is bad into quarantine, and exit with 1 if there was any."""
    from tvmake.cache.inspect import look

    intact = bad = 0
    with _opened(where, config, settings) as (wanted, store, secret):
        for looked in look(store, secret, thoroughly=True):
            if looked.problem is None:
                intact += 1
                continue
            bad += 1
            typer.echo(f"{looked.stored.key}: {looked.problem}", err=True)
            if not wanted.read_only:
                store.quarantine(looked.stored.key)
    what = "left in place" if wanted.read_only else "put into quarantine"
    typer.echo(f"{store.place}: {intact} entries are intact" + (f", {bad} are bad ({what})" if bad else ""))
    raise typer.Exit(1 if bad else 0)


@app.command("prune")
def prune_command(
    where: Where = None,
    config: ConfigFiles = None,
    settings: Settings = None,
    size_limit: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Fit into this [default: cache.size_limit].")
    ] = None,
    unused_days: Annotated[
        float | None, typer.Option(min=0, metavar="DAYS", help="Remove what was not used for so long.")
    ] = None,
) -> None:
    """Remove what was unused for longest, until the rest fits; and everything in quarantine."""
    from tvmake.config.cache import size_bytes
    from tvmake.errors import UsageError

    try:
        limit = None if size_limit is None else size_bytes(size_limit)
    except ValueError as error:
        raise UsageError("--size-limit", str(error)) from None
    with _opened(where, config, settings, changes=True) as (wanted, store, _):
        gone = []
        if unused_days is not None:
            oldest = time.time() - unused_days * DAY_S
            gone = [one for one in store.entries() if one.used_at < oldest]
            store.remove([one.key for one in gone])
        if size_limit is None and unused_days is None:
            limit = wanted.limit_bytes
        if limit is not None:
            gone += store.shrink(limit)
        store.forget_quarantined([one.key for one in store.quarantined()])
        left = store.entries()
    typer.echo(
        f"{store.place}: {len(gone)} entries removed ({_size(sum(one.size for one in gone))}), "
        f"{len(left)} left ({_size(sum(one.size for one in left))})"
    )


@app.command("clear")
def clear_command(where: Where = None, config: ConfigFiles = None, settings: Settings = None) -> None:
    """Remove every entry. What they hold is made again when it is wanted."""
    with _opened(where, config, settings, changes=True) as (_, store, _secret):
        gone = store.entries()
        store.remove([one.key for one in gone])
        store.forget_quarantined([one.key for one in store.quarantined()])
    typer.echo(f"{store.place}: {len(gone)} entries removed ({_size(sum(one.size for one in gone))})")


def prepare_cache(config: "CacheConfig | None", is_wanted: bool) -> None:
    """Tell a run's steps which cache to use, and say once, before they do, what is wrong with it.

    Args:
        config: what the config wants.
        is_wanted: whether one may be used at all, whatever config and environment say.

    Raises:
        TvmakeError: it can be none, or its secret cannot be read.
    """
    from tvmake.cache import settings as known
    from tvmake.cache.store import open_store
    from tvmake.cache.trouble import CacheTroubleError
    from tvmake.config.cache import as_text

    if not is_wanted:
        os.environ[known.VARIABLE] = known.OFF
    known.announce(config)
    wanted = known.configured()
    if wanted is None:
        return
    known.secret(wanted)
    try:
        store = open_store(wanted)
        problem = None if wanted.read_only else store.problem()
    except CacheTroubleError as error:
        problem = str(error)
    if problem:
        print(
            f"warning: cache {known.place(wanted)}: {problem}; what is made is not stored\n"
            "  make it writable, set cache.read_only, or give --no-cache",
            file=sys.stderr,
        )
        # Steps may still find what they need there, and need not all say the same.
        os.environ[known.VARIABLE] = as_text(wanted.model_copy(update={"read_only": True}))


@contextmanager
def _opened(
    where: str | None, files: list[Path] | None, settings: list[str] | None, changes: bool = False
) -> "Iterator[tuple[CacheConfig, Store, bytes | None]]":
    """The cache that a command means; its failures become one clear line."""
    from tvmake.cache import settings as known
    from tvmake.cache.store import open_store
    from tvmake.cache.trouble import CacheTroubleError
    from tvmake.errors import MachineError, UsageError

    wanted = _wanted(where, files, settings)
    if changes and wanted.read_only:
        raise UsageError(
            f"cache: {known.place(wanted)}", "it is read-only here", "name it with --cache to change it all the same"
        )
    try:
        yield wanted, open_store(wanted), known.secret(wanted)
    except CacheTroubleError as error:
        raise MachineError(
            f"cache: {known.place(wanted)}", str(error), "check address, network, rights and credentials"
        ) from None


def _wanted(where: str | None, files: list[Path] | None, settings: list[str] | None) -> "CacheConfig":
    from tvmake.cache import settings as known
    from tvmake.cli.configs import DEFAULTS, config_files, overlay
    from tvmake.config.cache import CacheConfig
    from tvmake.config.load import load_layers

    if where is not None:
        return CacheConfig(where=where)
    if (from_environment := known.configured()) is not None:
        return from_environment
    if files or settings or any(path.is_file() for path in DEFAULTS):
        return load_layers(config_files(files), overlay(settings)).cache or CacheConfig()
    return CacheConfig()


def _summary(wanted: "CacheConfig", store: "Store", secret: bytes | None) -> dict[str, Any]:
    from tvmake.cache.inspect import look

    stages: dict[str, dict[str, Any]] = {}
    unusable = 0
    for looked in look(store, secret, thoroughly=False):
        if looked.header is None:
            unusable += 1
            continue
        stage = stages.setdefault(looked.header.stage, {"entries": 0, "bytes": 0, "run_s": 0.0})
        stage["entries"] += 1
        stage["bytes"] += looked.stored.size
        stage["run_s"] = round(stage["run_s"] + looked.header.run_s, 2)
    return {
        "cache": store.place,
        "read_only": wanted.read_only,
        "sealed": secret is not None,
        "size_limit_bytes": wanted.limit_bytes,
        "entries": sum(stage["entries"] for stage in stages.values()),
        "bytes": sum(stage["bytes"] for stage in stages.values()),
        "unusable": unusable,
        "quarantined": len(store.quarantined()),
        "stages": stages,
    }


def _print_summary(known: dict[str, Any]) -> None:
    from tvmake.report.terminal import plain_table

    limit = known["size_limit_bytes"]
    notes = [f"of at most {_size(limit)}"] if limit is not None else []
    notes += ["read-only"] if known["read_only"] else []
    notes += ["sealed with a secret"] if known["sealed"] else []
    typer.echo(f"{known['cache']}: {known['entries']} entries, {', '.join([_size(known['bytes']), *notes])}")
    rows = [
        (name, str(stage["entries"]), _size(stage["bytes"]), f"{stage['run_s']:.1f} s")
        for name, stage in known["stages"].items()
    ]
    if rows:
        for line in plain_table(
            ("stage", "entries", "size", "work in them"), rows, ("entries", "size", "work in them")
        ):
            typer.echo(line)
    for count, what in ((known["unusable"], "entries would not be used"), (known["quarantined"], "are in quarantine")):
        if count:
            typer.echo(f"{count} {what}; see `tvmake cache verify` and `tvmake cache prune`")


def _details(store: "Store", key: str, secret: bytes | None) -> dict[str, Any]:
    from tvmake.cache.entry import read_header
    from tvmake.cache.trouble import BadEntryError
    from tvmake.errors import InputError

    found = [one.key for one in store.entries() if one.key.startswith(key)] if len(key) >= 8 else []
    if len(found) != 1:
        raise InputError(
            f"cache: {store.place}",
            f"{'several keys begin' if found else 'no key begins'} with '{key}'",
            "a step's log names the key it was taken from; give 8 or more of its digits",
        )
    with store.open(found[0]) as opened:
        if opened is None:
            raise InputError(f"cache: {store.place}", f"{found[0]} was removed meanwhile")
        try:
            return read_header(*opened, found[0], secret).model_dump(mode="json")
        except BadEntryError as error:
            raise InputError(f"cache: {store.place}", f"{found[0]}: {error}", "`tvmake cache verify`") from None


def _size(count: float) -> str:
    from tvmake.report.quantities import size

    return size(int(count))
