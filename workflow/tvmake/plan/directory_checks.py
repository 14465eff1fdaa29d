"""Check the directories that a plan's jobs write: they must not meet others, and nothing may block their files."""

import errno
import os
import shlex
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from tvmake.cache import settings
from tvmake.config.reading.load import one_or_many
from tvmake.config.root import Config
from tvmake.errors import InputError
from tvmake.plan.config_keys import prefix_errors, tuning_key
from tvmake.plan.outputs import directories, recognise
from tvmake.plan.plan import Plan, Variant
from tvmake.storage.directories import SNAKEMAKE_STATE


def check_directories(plan: Plan) -> None:
    """Refuse results or logs among the project's own files or in each other, and a cache or stores inside them, or the reverse.

    Commands that clean, read or share one of them would meet the others.

    Raises:
        InputError: two directories are the same, or one contains the other.
    """
    results, logs, project = Path(plan.config.results).resolve(), Path(plan.config.logs).resolve(), Path.cwd()
    for key, typed, directory in (("results", plan.config.results, results), ("logs", plan.config.logs, logs)):
        if project.is_relative_to(directory):
            problem = f"it contains the project, with files that are not {key}"
            raise InputError(f"{key}: {typed}", problem, f"use a separate directory, such as {key}")
    if results.is_relative_to(logs) or logs.is_relative_to(results):
        both = {"logs": logs, "results": results}
        key = "logs" if "logs" in plan.config.model_fields_set else "results"
        second = "results" if key == "logs" else "logs"
        is_inside = both[key].is_relative_to(both[second])
        relation = "is" if results == logs else "is inside" if is_inside else "contains"
        where = f"{key}: {getattr(plan.config, key)}"
        raise InputError(where, f"{relation} the directory of {second}", "use a separate directory")
    written = {"results": results, "logs": logs, str(SNAKEMAKE_STATE): project / SNAKEMAKE_STATE}
    named = _kept_directories(plan)
    for key, directory in named.items():
        others = {
            **written,
            **{other: path for other, path in named.items() if "cache" in (key, other) and other != key},
        }
        for name, other in others.items():
            # A directory above the whole project may be a disk of several users.
            is_above = other.is_relative_to(directory) and not project.parent.is_relative_to(directory)
            if directory.is_relative_to(other) or is_above:
                relation = "is the directory of" if directory == other else "contains" if is_above else "is inside"
                raise InputError(f"{key}: {directory}", f"{relation} {name}", "use a separate directory")


def _kept_directories(plan: Plan) -> dict[str, Path]:
    """Local directories of the config that outlive a run, by key."""
    named: dict[str, Path] = {}
    for target in dict.fromkeys(variant.target for variant in plan.variants if plan.context(variant).is_tuned):
        tuning = plan.context({"target": target}).tuning
        for key, name in (("store", tuning.store), ("shared", tuning.shared)):
            if name is not None and "://" not in name.removeprefix("file://"):
                named[tuning_key(plan, target, key)] = Path(name.removeprefix("file://")).expanduser().resolve()
    cache = plan.config.cache
    if cache is not None and not cache.is_remote:
        named["cache"] = settings.directory(cache).resolve()
    return named


def check_results_directory(plan: Plan) -> None:
    """Refuse a results directory that cannot be created.

    Raises:
        InputError: it cannot be created.
    """
    with prefix_errors("results"):
        check_can_create(Path(plan.config.results))


def check_can_create(directory: Path) -> None:
    """Refuse a directory that cannot be created, by creating one beside it and removing it."""
    if os.path.lexists(directory):
        return
    above = next(parent for parent in directory.absolute().parents if parent.exists())
    try:
        os.rmdir(tempfile.mkdtemp(prefix=".tvmake-", dir=above))  # noqa: PTH106
    except OSError as error:
        problem = f"cannot create a directory in {above}: {error.strerror}"
        raise InputError(str(directory), problem, "name a directory that you can write to") from None


def check_output_paths(plan: Plan, variants: Iterable[Variant]) -> None:
    """Refuse entries that block the files of results and logs: directories in place of files, links to themselves, files in place of
    directories.

    tvmake did not make the files in such a directory, so it does not remove them. An empty one is removed.

    Raises:
        InputError, ErrorList: an entry blocks a file.
    """
    files = plan.written_files(variants)
    names = dict.fromkeys(map(os.path.dirname, files))
    above = dict.fromkeys(str(parent) for name in names for parent in _chain(name))
    results = plan.config.results
    errors = [*_not_directories(above, results), *_not_files(files, plan.config)]
    if errors:
        raise one_or_many(errors)


def _not_directories(above: Iterable[str], results: str) -> Iterator[InputError]:
    for name in above:
        if name == results and os.path.exists(name) and not os.path.isdir(name):  # noqa: PTH110, PTH112
            kind = "a file" if os.path.isfile(name) else "a device, a pipe or a socket"  # noqa: PTH113
            yield InputError(f"results: {name}", f"is {kind}, but must be a directory", "name another directory")
        elif os.path.lexists(name) and not os.path.isdir(name):  # noqa: PTH112  # of thousands
            kind = "is a broken link" if os.path.islink(name) else "is not a directory"  # noqa: PTH114
            yield InputError(name, f"{kind}, but results or logs go into it", "remove it, or move it elsewhere")


def _chain(directory: str) -> list[Path]:
    """A directory and its parents, as named."""
    path = Path(directory)
    return [parent for parent in (path, *path.parents) if parent != Path()]


def _not_files(files: Iterable[str], config: Config) -> Iterator[InputError]:
    for name in files:
        if os.path.islink(name) and _leads_to_itself(name):  # noqa: PTH114  # of tens of thousands
            problem = "is a link to itself, but must be a file"
            yield InputError(name, problem, f"remove it: rm {shlex.quote(name)}")
        if not os.path.isdir(name) or not os.listdir(name):  # noqa: PTH112, PTH208  # of tens of thousands
            continue
        known = recognise(name, config)
        if known is None or name.startswith(f"{config.logs}/") or known.artifact not in directories():
            yield InputError(name, "is a directory, but must be a file", "move it elsewhere")


def _leads_to_itself(link: str) -> bool:
    try:
        os.stat(link)  # noqa: PTH116
    except OSError as error:
        return error.errno == errno.ELOOP
    return False
