"""Find the files that runs left in the results and logs, and which of them a plan's jobs still make."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tvmake.artifact.paths import HISTORY
from tvmake.cache.settings import directory
from tvmake.config.root import Config
from tvmake.errors import InputError
from tvmake.plan.outputs import PlannedFiles, Recognised, directories, recognise
from tvmake.plan.plan import Plan
from tvmake.stages import registry
from tvmake.storage.files import writing
from tvmake.storage.notes.job_records import record_of
from tvmake.storage.notes.known_digests import has_digest
from tvmake.storage.notes.own_directories import is_own


@dataclass
class Leftovers:
    """Files in the results and logs."""

    removable: list[tuple[str, int]] = field(default_factory=list)
    """Files and directories to remove, with their sizes in bytes."""
    kept: int = 0
    """Files that the plan's jobs make."""
    foreign: int = 0
    """Files that no job makes with any config."""

    @property
    def size(self) -> int:
        """Size of the removable files in bytes."""
        return sum(size for _, size in self.removable)


def leftovers(plan: Plan, stale: bool) -> Leftovers:
    """Sort the files in the results and logs.

    Args:
        plan: the plan, with the results directory and the current files.
        stale: whether files that the plan's jobs make are kept.

    Raises:
        InputError: the results are mixed with the project's own files.
    """
    results = plan.config.results
    if Path.cwd().is_relative_to(Path(results).resolve()):
        raise InputError(
            f"results: {results}",
            "results are mixed with the project's own files, which may have the same names",
            "delete them manually, or use a separate directory for results",
        )
    planned, inputs, left = PlannedFiles(plan), _inputs(plan), Leftovers()
    for root in (results, plan.config.logs):
        is_all_own = is_own(root)
        for entry, recognised in _entries(root, plan.config, inputs) if Path(root).is_dir() else ():
            is_directory = entry.is_dir(follow_symlinks=False)
            if Path(entry.path).parent == Path(results) / HISTORY:
                continue
            if Path(entry.path).absolute() in inputs:
                left.foreign += _count(entry.path) if is_directory else 1
            elif (
                recognised is None
                or is_directory != (recognised.artifact in directories() and root == results)
                or not (is_all_own or _is_as_made(entry.path, recognised, plan))
            ):
                left.foreign += 1
            elif stale and planned.has(recognised):
                left.kept += 1
            else:
                left.removable.append((entry.path, _size(entry.path)))
    return left


def remove(path: Path, config: Config) -> None:
    """Delete a file or directory, and the parent directories that become empty.

    Raises:
        MachineError: it cannot be deleted.
    """
    with writing(path):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for above in path.parents:
        is_root = above in (Path(config.results), Path(config.logs))
        if above == Path() or any(above.iterdir()) or (is_root and (above.is_symlink() or not is_own(str(above)))):
            break
        above.rmdir()
        if is_root:
            break


def by_model(removable: list[tuple[str, int]], config: Config) -> list[tuple[str, int]]:
    """Sizes by model, and of the files beside the models."""
    sums: dict[str, int] = {}
    for path, size in removable:
        inside = Path(path).relative_to(config.results if Path(path).is_relative_to(config.results) else config.logs)
        top = str(Path(path).parents[len(inside.parts) - 2]) + "/" if len(inside.parts) > 1 else path
        sums[top] = sums.get(top, 0) + size
    return list(sums.items())


def _is_as_made(path: str, recognised: Recognised, plan: Plan) -> bool:
    """Whether this project made a file and it is unaltered; for a log, whether the project made its results."""
    if path == plan.file("config.resolved.yaml"):
        return plan.has_written_config()
    result = path
    if result.startswith(f"{plan.config.logs}/"):
        result = registry.path(recognised.artifact, plan.config.results, **recognised.wildcards)
    record = record_of([result])
    return record is not None and (result != path or has_digest(Path(path), record.outputs.get(path, "")))


def _entries(root: str, config: Config, inputs: set[Path]) -> Iterator[tuple[os.DirEntry[str], Recognised | None]]:
    """The files below a directory, and the directories that are artifacts or inputs."""
    with os.scandir(root) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            recognised = recognise(entry.path, config)
            is_whole = recognised is not None and recognised.artifact in directories()
            if entry.is_dir(follow_symlinks=False) and not is_whole and Path(entry.path).absolute() not in inputs:
                yield from _entries(entry.path, config, inputs)
            else:
                yield entry, recognised


def _inputs(plan: Plan) -> set[Path]:
    """The inputs of the config, records and cache included, which may be in the results."""
    config = plan.config
    named: list[str | Path | None] = []
    for model in config.networks:
        named += plan.source_files(model)
        dataset = config.networks[model].dataset
        named.append(dataset.path if dataset else None)
    for target in config.targets:
        tuning = plan.context({"target": target}).tuning
        named += [tuning.store, tuning.frozen, None if "://" in (tuning.shared or "") else tuning.shared]
    if config.cache is not None and not config.cache.is_remote:
        named.append(directory(config.cache))
    return {Path(name).absolute() for name in named if name}


def _size(path: str) -> int:
    file_or_tree = Path(path)
    files = file_or_tree.rglob("*") if file_or_tree.is_dir() and not file_or_tree.is_symlink() else [file_or_tree]
    return sum(file.lstat().st_size for file in files if not file.is_dir() or file.is_symlink())


def _count(path: str) -> int:
    return sum(1 for file in Path(path).rglob("*") if not file.is_dir())
