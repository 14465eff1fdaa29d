"""``tvmake clean``: what runs have left behind, and what of it the config no longer asks for."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tvmake.cli.configs import ConfigFiles, Settings

if TYPE_CHECKING:
    from tvmake.plan.plan import Plan

LOGS = "logs"


@dataclass
class Found:
    """What lies under the results and the logs."""

    items: list[tuple[str, int]] = field(default_factory=list)
    """Files and directories to remove, with their sizes in bytes."""
    kept: int = 0
    """Files that the config's rules make."""
    foreign: int = 0
    """Files that no rule makes, whatever the config."""

    @property
    def size(self) -> int:
        """Bytes of all items."""
        return sum(size for _, size in self.items)


def clean(
    stale: Annotated[
        bool, typer.Option("--stale", help="Only what the config no longer asks for: removed variants, kernels, logs.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete it; without this, it is listed only.")] = False,
    config: ConfigFiles = None,
    settings: Settings = None,
    directory: Annotated[Path, typer.Option("--directory", "-d", help="Work in this directory.")] = Path(),
) -> None:
    """List what runs have made under the results directory and logs/; with --yes, delete it.

    Tuning records, models, datasets and files that tvmake does not make stay in any case.
    """
    from contextlib import nullcontext

    from tvmake.cli.configs import config_files, overlay
    from tvmake.cli.run_lock import only_run
    from tvmake.config.load import load_layers
    from tvmake.errors import InputError
    from tvmake.plan.plan import Plan

    if not directory.is_dir():
        raise InputError(str(directory), "no such directory")
    paths = [path.resolve() for path in config] if config else None
    os.chdir(directory)
    plan = Plan(load_layers(config_files(paths), overlay(settings)))
    _check_place(plan)
    with only_run() if yes else nullcontext():
        found = look(plan, stale)
        for path, size in found.items if stale else _by_top(found.items, plan.config.results):
            typer.echo(f"{_text(size):>9}  {path}")
        if yes:
            for path, _ in found.items:
                remove(Path(path), plan.config.results)
    _conclude(found, stale, yes)


def look(plan: Plan, stale: bool) -> Found:
    """Sort what lies under the results and the logs into what to remove, what to keep and what is not ours.

    Args:
        stale: whether what the plan's rules make is kept.
    """
    from tvmake.plan.made import DIRECTORIES, Made, recognise

    made, untouchable, found = Made(plan), _untouchable(plan), Found()
    results = plan.config.results

    def walk(place: str) -> Iterator[os.DirEntry[str]]:
        with os.scandir(place) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                is_directory = entry.is_dir(follow_symlinks=False)
                if Path(entry.path).absolute() in untouchable:
                    found.foreign += _count(entry.path) if is_directory else 1
                elif is_directory and not _is(entry.path, DIRECTORIES):
                    yield from walk(entry.path)
                else:
                    yield entry

    def _is(path: str, artifacts: frozenset) -> bool:
        recognised = recognise(path, results)
        return recognised is not None and recognised.artifact in artifacts

    for place in (results, LOGS):
        for entry in walk(place) if Path(place).is_dir() else ():
            recognised = recognise(entry.path, results)
            is_directory = entry.is_dir(follow_symlinks=False)
            if recognised is None or is_directory != (recognised.artifact in DIRECTORIES and place == results):
                found.foreign += 1
            elif stale and made.has(recognised):
                found.kept += 1
            else:
                found.items.append((entry.path, _size(entry.path)))
    return found


def remove(path: Path, results: str) -> None:
    """Delete a file or a directory, and the directories above it that are empty then.

    Raises:
        MachineError: it cannot be deleted.
    """
    from tvmake.artifact.files import writing

    with writing(path):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for above in path.parents:
        if above in (Path(), Path(results).parent) or any(above.iterdir()):
            break
        above.rmdir()


def _check_place(plan: Plan) -> None:
    from tvmake.errors import InputError

    if Path.cwd().is_relative_to(Path(plan.config.results).resolve()):
        raise InputError(
            f"results: {plan.config.results}",
            "results lie among the project's own files, which have the same shapes",
            "delete them by hand, or give the results a directory of their own",
        )


def _untouchable(plan: Plan) -> set[Path]:
    """What the config reads, records and cache included, in case it lies under the results."""
    from tvmake.cache.settings import directory

    config = plan.config
    named: list[str | Path | None] = []
    for model in config.models:
        named += [*plan.reference_files(model), *plan.pass_files("transform", model), *plan.pass_files("build", model)]
        dataset = config.models[model].dataset
        named.append(dataset.path if dataset else None)
    for target in config.targets:
        tuning = plan.tuning(target)
        named += [tuning.store, tuning.frozen, None if "://" in (tuning.shared or "") else tuning.shared]
    if config.cache is not None and not config.cache.is_remote:
        named.append(directory(config.cache))
    return {Path(name).absolute() for name in named if name}


def _by_top(items: list[tuple[str, int]], results: str) -> list[tuple[str, int]]:
    """Sizes by model, and by what lies beside the models."""
    sums: dict[str, int] = {}
    for path, size in items:
        inside = Path(path).relative_to(results if Path(path).is_relative_to(results) else LOGS)
        top = str(Path(path).parents[len(inside.parts) - 2]) + "/" if len(inside.parts) > 1 else path
        sums[top] = sums.get(top, 0) + size
    return list(sums.items())


def _size(path: str) -> int:
    place = Path(path)
    files = place.rglob("*") if place.is_dir() and not place.is_symlink() else [place]
    return sum(file.lstat().st_size for file in files if not file.is_dir() or file.is_symlink())


def _count(path: str) -> int:
    return sum(1 for file in Path(path).rglob("*") if not file.is_dir())


def _text(size: int) -> str:
    if size < 1000:
        return f"{size} B"
    for unit, scale in (("kB", 1e3), ("MB", 1e6)):
        if size < 1000 * scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size / 1e9:.1f} GB"


def _conclude(found: Found, stale: bool, yes: bool) -> None:
    what = "stale" if stale else "made by runs"
    if not found.items:
        typer.echo(f"nothing is {what}")
    else:
        typer.echo(f"{len(found.items)} {what}, {_text(found.size)}: " + ("deleted" if yes else "--yes deletes them"))
    if found.kept:
        typer.echo(f"{found.kept} that the config asks for are kept")
    if found.foreign:
        typer.echo(f"{found.foreign} that tvmake does not make are left alone")
    if not stale and not yes and found.items:
        typer.echo("--stale names only what the config no longer asks for")
