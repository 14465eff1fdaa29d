"""``tvmake cache …``: list, verify and prune the cache."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvmake.cache import loaded  # noqa: F401  # records when the code was loaded
from tvmake.cli.configs import AsJson, ConfigFiles, Settings
from tvmake.cli.terminal import print_json
from tvmake.process.output import counted

if TYPE_CHECKING:
    from tvmake.cache.store import Store, Stored
    from tvmake.config.cache import CacheConfig

app = typer.Typer(no_args_is_help=True, help="Inspect, verify and prune the cache of results.")

Where = Annotated[
    str | None,
    typer.Option(
        "--cache",
        metavar="WHERE",
        help="A directory or URL [default: TVMAKE_CACHE, else the config's, else the user's].",
    ),
]

DAY_S = 86400.0


@app.command("info")
def info_command(
    key: Annotated[str | None, typer.Argument(help="One entry: its key, or the first 8 or more digits.")] = None,
    where: Where = None,
    config: ConfigFiles = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Show what the cache holds, by stage, or the details of one entry."""
    from tvmake.cache.inspect import entry_details, summarise

    with _open_cache(where, config, settings) as (chosen, store, secret):
        if key is not None:
            print_json(entry_details(store, key, secret))
            return
        summary = summarise(chosen, store, secret)
    if as_json:
        print_json(summary)
    else:
        _print_summary(summary)


@app.command("verify")
def verify_command(
    where: Where = None, config: ConfigFiles = None, settings: Settings = None, as_json: AsJson = False
) -> None:
    """Check every byte and remove damaged entries. Exits with 1 if there are any."""
    from tvmake.cache.inspect import inspect

    intact = 0
    bad: list[dict[str, str]] = []
    with _open_cache(where, config, settings) as (chosen, store, secret):
        for entry in inspect(store, secret, thoroughly=True):
            if entry.problem is None:
                intact += 1
                continue
            bad.append({"key": entry.stored.key, "problem": entry.problem})
            if not as_json:
                typer.echo(f"{entry.stored.key}: {entry.problem}", err=True)
            if not chosen.read_only:
                store.remove([entry.stored.key])
    if as_json:
        print_json({"cache": str(store.location), "intact": intact, "bad": bad, "removed": not chosen.read_only})
        raise typer.Exit(1 if bad else 0)
    outcome = "left in place" if chosen.read_only else "removed"
    typer.echo(
        f"{store.location}: {counted(intact, 'entry is', 'entries are')} intact"
        + (f", {len(bad)} {'is' if len(bad) == 1 else 'are'} bad ({outcome})" if bad else "")
    )
    raise typer.Exit(1 if bad else 0)


@app.command("prune")
def prune_command(
    where: Where = None,
    config: ConfigFiles = None,
    settings: Settings = None,
    size_limit: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Maximum size after pruning [default: cache.size_limit].")
    ] = None,
    unused_days: Annotated[
        float | None, typer.Option(min=0, metavar="DAYS", help="Remove entries unused for this many days.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Remove the least recently used entries until the rest fits."""
    from tvmake.config.cache import size_bytes
    from tvmake.errors import UsageError

    try:
        limit = None if size_limit is None else size_bytes(size_limit)
    except ValueError as error:
        raise UsageError("--size-limit", str(error)) from None
    with _open_cache(where, config, settings, changes=True) as (chosen, store, _):
        removed = []
        if unused_days is not None:
            oldest = time.time() - unused_days * DAY_S
            removed = [stored for stored in store.entries() if stored.used_at < oldest]
            store.remove([stored.key for stored in removed])
        if size_limit is None and unused_days is None:
            limit = chosen.limit_bytes
        if limit is not None:
            removed += store.shrink(limit)
        left = store.entries()
    if as_json:
        print_json({"cache": str(store.location), "removed": _totals(removed), "left": _totals(left)})
        return
    typer.echo(
        f"{store.location}: {counted(len(removed), 'entry', 'entries')} removed ({_size(_totals(removed)['bytes'])}), "
        f"{len(left)} left ({_size(_totals(left)['bytes'])})"
    )


@app.command("clear")
def clear_command(
    where: Where = None, config: ConfigFiles = None, settings: Settings = None, as_json: AsJson = False
) -> None:
    """Remove every entry. Later runs rebuild the results."""
    with _open_cache(where, config, settings, changes=True) as (_, store, _secret):
        removed = store.entries()
        store.remove([stored.key for stored in removed])
    if as_json:
        print_json({"cache": str(store.location), "removed": _totals(removed)})
        return
    typer.echo(
        f"{store.location}: {counted(len(removed), 'entry', 'entries')} removed ({_size(_totals(removed)['bytes'])})"
    )


@contextmanager
def _open_cache(
    where: str | None, files: list[Path] | None, settings: list[str] | None, changes: bool = False
) -> "Iterator[tuple[CacheConfig, Store, bytes | None]]":
    """Open the cache that a command names. Failures become one clear message."""
    from tvmake.cache import settings as cache_settings
    from tvmake.cache.errors import CacheTroubleError
    from tvmake.cache.open import open_store
    from tvmake.errors import MachineError, UsageError

    chosen = _cache_config(where, files, settings)
    if changes and chosen.read_only:
        raise UsageError(
            f"cache: {cache_settings.location(chosen)}",
            "it is configured as read-only",
            "name it with --cache to change it anyway",
        )
    try:
        yield chosen, open_store(chosen), cache_settings.secret(chosen)
    except CacheTroubleError as error:
        raise MachineError(
            f"cache: {cache_settings.location(chosen)}",
            str(error),
            "check the address, the network, permissions and credentials",
        ) from None


def _cache_config(where: str | None, files: list[Path] | None, settings: list[str] | None) -> "CacheConfig":
    from pydantic import ValidationError

    from tvmake.cache import settings as cache_settings
    from tvmake.cli.configs import DEFAULTS, config_files, overlay
    from tvmake.config.cache import CacheConfig
    from tvmake.config.reading.load import load_layers
    from tvmake.errors import UsageError

    if where is not None:
        try:
            return CacheConfig(where=where)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
            raise UsageError(f"--cache {where}", problem, "name a directory or a URL") from None
    if (from_environment := cache_settings.configured_cache()) is not None:
        return from_environment
    if files or settings or any(path.is_file() for path in DEFAULTS):
        return load_layers(config_files(files), overlay(settings)).cache or CacheConfig()
    return CacheConfig()


def _print_summary(summary: dict[str, Any]) -> None:
    from tvmake.report.terminal import plain_table

    limit = summary["size_limit_bytes"]
    notes = [f"limit {_size(limit)}"] if limit is not None else []
    notes += ["read-only"] if summary["read_only"] else []
    notes += ["sealed with a secret"] if summary["sealed"] else []
    typer.echo(
        f"{summary['cache']}: {counted(summary['entries'], 'entry', 'entries')}, {', '.join([_size(summary['bytes']), *notes])}"
    )
    rows = [
        (name, str(stage["entries"]), _size(stage["bytes"]), f"{stage['run_s']:.1f} s")
        for name, stage in summary["stages"].items()
    ]
    if rows:
        for line in plain_table(
            ("stage", "entries", "size", "compute time"), rows, ("entries", "size", "compute time")
        ):
            typer.echo(line)
    if count := summary["unusable"]:
        typer.echo(f"{counted(count, 'entry is', 'entries are')} unusable; `tvmake cache verify` removes them")


def _totals(entries: "list[Stored]") -> dict[str, int]:
    return {"entries": len(entries), "bytes": sum(stored.size for stored in entries)}


def _size(count: float) -> str:
    from tvmake.report.quantities import size

    return size(int(count))
