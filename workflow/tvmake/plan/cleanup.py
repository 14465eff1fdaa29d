"""What runs have left behind under the results and the logs, and what of it a plan's jobs still make."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tvmake.artifact.paths import HISTORY
from tvmake.cache.settings import directory
from tvmake.errors import InputError
from tvmake.plan.outputs import PlannedFiles, Recognised, directories, recognise
from tvmake.plan.plan import Plan
from tvmake.stages import registry
from tvmake.storage.directories import LOGS
from tvmake.storage.files import writing
from tvmake.storage.notes.job_records import record_of
from tvmake.storage.notes.known_digests import has_digest
from tvmake.storage.notes.own_directories import is_own


@dataclass
class Leftovers:
    """What lies under the results and the logs."""

    removable: list[tuple[str, int]] = field(default_factory=list)
    """Files and directories to remove, with their sizes in bytes."""
    kept: int = 0
    """Files that the plan's jobs make."""
    foreign: int = 0
    """Files that no job makes, whatever the config."""

    @property
    def size(self) -> int:
        """Bytes of what is to be removed."""
        return sum(size for _, size in self.removable)


def leftovers(plan: Plan, stale: bool) -> Leftovers:
    """Sort what lies under the results and the logs.

    Args:
        plan: says where the results are, and which files are up to date.
        stale: whether what the plan's jobs make is kept.

    Raises:
        InputError: results lie among the project's own files.
    """
    results = plan.config.results
    if Path.cwd().is_relative_to(Path(results).resolve()):
        raise InputError(
            f"results: {results}",
            "results lie among the project's own files, which have the same shapes",
            "delete them by hand, or give the results a directory of their own",
        )
    planned, inputs, found = PlannedFiles(plan), _inputs(plan), Leftovers()
    for root in (results, LOGS):
        is_all_own = is_own(root)
        for entry, recognised in _entries(root, results, inputs) if Path(root).is_dir() else ():
            is_directory = entry.is_dir(follow_symlinks=False)
            if Path(entry.path).parent == Path(results) / HISTORY:
                continue
            if Path(entry.path).absolute() in inputs:
                found.foreign += _count(entry.path) if is_directory else 1
            elif (
                recognised is None
                or is_directory != (recognised.artifact in directories() and root == results)
                or not (is_all_own or _is_as_made(entry.path, recognised, plan))
            ):
                found.foreign += 1
            elif stale and planned.has(recognised):
                found.kept += 1
            else:
                found.removable.append((entry.path, _size(entry.path)))
    return found


def remove(path: Path, results: str) -> None:
    """Delete a file or a directory, and the directories above it that are empty then.

    Raises:
        MachineError: it cannot be deleted.
    """
    with writing(path):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for above in path.parents:
        is_root = above in (Path(results), Path(LOGS))
        if above == Path() or any(above.iterdir()) or (is_root and (above.is_symlink() or not is_own(str(above)))):
            break
        above.rmdir()
        if is_root:
            break


def by_model(removable: list[tuple[str, int]], results: str) -> list[tuple[str, int]]:
    """Sizes by model, and by what lies beside the models."""
    sums: dict[str, int] = {}
    for path, size in removable:
        inside = Path(path).relative_to(results if Path(path).is_relative_to(results) else LOGS)
        top = str(Path(path).parents[len(inside.parts) - 2]) + "/" if len(inside.parts) > 1 else path
        sums[top] = sums.get(top, 0) + size
    return list(sums.items())


def _is_as_made(path: str, recognised: Recognised, plan: Plan) -> bool:
    """Whether this project has made this file, and it is as it was left; a log, what was made with it."""
    if path == plan.file("config.resolved.yaml"):
        return plan.has_written_config()
    made = path
    if made.startswith(f"{LOGS}/"):
        made = registry.path(recognised.artifact, plan.config.results, **recognised.wildcards)
    record = record_of([made])
    return record is not None and (made != path or has_digest(Path(path), record.outputs.get(path, "")))


def _entries(root: str, results: str, inputs: set[Path]) -> Iterator[tuple[os.DirEntry[str], Recognised | None]]:
    """The files below a directory, and the directories that are artifacts or inputs."""
    with os.scandir(root) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            recognised = recognise(entry.path, results)
            is_whole = recognised is not None and recognised.artifact in directories()
            if entry.is_dir(follow_symlinks=False) and not is_whole and Path(entry.path).absolute() not in inputs:
                yield from _entries(entry.path, results, inputs)
            else:
                yield entry, recognised


def _inputs(plan: Plan) -> set[Path]:
    """What the config reads, records and cache included, in case it lies under the results."""
    config = plan.config
    named: list[str | Path | None] = []
    for model in config.models:
        named += plan.source_files(model)
        dataset = config.models[model].dataset
        named.append(dataset.path if dataset else None)
    for target in config.targets:
        tuning = plan.context({"target": target}).tuning
        named += [tuning.store, tuning.frozen, None if "://" in (tuning.shared or "") else tuning.shared]
    if config.cache is not None and not config.cache.is_remote:
        named.append(directory(config.cache))
    return {Path(name).absolute() for name in named if name}


def _size(path: str) -> int:
    place = Path(path)
    files = place.rglob("*") if place.is_dir() and not place.is_symlink() else [place]
    return sum(file.lstat().st_size for file in files if not file.is_dir() or file.is_symlink())


def _count(path: str) -> int:
    return sum(1 for file in Path(path).rglob("*") if not file.is_dir())
