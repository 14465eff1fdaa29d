"""Nothing to do, told without planning.

Snakemake plans every job to find that none has to run: seconds for thousands of jobs. Where it found so, a note is kept of
all that its answer depends on. As long as all of that is the same, so is the answer.

Of files the note holds inode, size and times; the time of change of the inode is among them, which nobody can set. Of
everything else it holds the content. In any doubt there is no note, or it is not used, and Snakemake plans.
"""

import hashlib
import json
import os
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from tvmake import house
from tvmake.artifact.files import canonical_json, digest_bytes, write_text
from tvmake.artifact.known_digests import SETTLED_NS
from tvmake.errors import MachineError
from tvmake.plan.fingerprint import DISTRIBUTIONS, version
from tvmake.plan.machine import cpu_identity
from tvmake.warm.client import DIRECTORY as WARM_SERVERS

if TYPE_CHECKING:
    from tvmake.plan.plan import Plan

STATE = Path(".snakemake")
NOTE = STATE / "tvmake-nothing-to-do.json"
FORM = 1
"""Of the note; another one is not read."""

SNAKEMAKES_NOTES = (STATE / "metadata", STATE / "incomplete")
"""What Snakemake keeps of every result, and of results that are not complete."""

LOCKS = STATE / "locks"
"""There while a plain ``snakemake`` is at work."""

VARIABLES = ("TVMAKE_", "SNAKEMAKE_")
"""Beginnings of the names of environment variables that the config, the plan or Snakemake's options may go by."""

PROFILE_VARIABLE = "SNAKEMAKE_PROFILE"

PROFILES = ("default", "profiles/default")
"""Where Snakemake looks for a profile that nobody named, in several directories."""

CHANGING = ("$", "__use_yte__")
"""What makes a profile's values depend on more than its text."""


@dataclass(frozen=True)
class Question:
    """All that the answer depends on besides the files of the jobs."""

    digest: str
    newest_ns: int
    """When the newest of the files that it was read from was changed."""


@dataclass(frozen=True)
class Look:
    """The moment before Snakemake began to plan."""

    began_ns: int
    notes: str
    """Digest of Snakemake's notes as they were."""


@dataclass(frozen=True)
class JobFiles:
    """The files of all jobs of a plan."""

    inputs: frozenset[str]
    outputs: frozenset[str]


def question(plan: "Plan", config_files: Iterable[Path], environment: Mapping[str, str]) -> Question | None:
    """What a run of the whole plan goes by; None where that cannot be said.

    Args:
        config_files: the files that the plan was read from.
        environment: as the run was started with.
    """
    if PROFILE_VARIABLE in environment:
        return None
    try:
        return _question(plan, config_files, environment)
    except (OSError, ValueError):
        return None


def _question(plan: "Plan", config_files: Iterable[Path], environment: Mapping[str, str]) -> Question | None:
    own = _own_profiles()
    if any(word in text for text in own.values() for word in CHANGING):
        return None
    code = _code()
    asked = {
        "config": plan.resolved_config(),
        "cpu": cpu_identity() if any(target.is_native for target in plan.config.targets.values()) else None,
        "sources": {model: _sources(plan, model) for model in plan.config.models},
        "code": {str(path): digest_bytes(path.read_bytes()) for path in code},
        "profiles": [[str(path), digest_bytes(text.encode())] for path, text in own.items()],
        "places of profiles": [str(path) for path in _profile_places() if path.exists()],
        "python": [sys.version, sys.prefix],
        "libraries": _libraries(),
        "versions": {name: version(name) for names in DISTRIBUTIONS.values() for name in names},
        "environment": {
            # Which process a step is forked from changes nothing of what it does.
            name: value
            for name, value in environment.items()
            if name.startswith(VARIABLES) and name != WARM_SERVERS
        },
        "directory": str(Path.cwd()),
    }
    read = [*code, *own, *config_files]
    return Question(digest_bytes(canonical_json(asked).encode()), max(path.stat().st_ctime_ns for path in read))


def nothing_has_changed(asked: Question) -> bool:
    """Whether there was nothing to do when the note was written, and everything is as it was then."""
    try:
        noted = json.loads(NOTE.read_text())
        if noted["form"] != FORM or noted["question"] != asked.digest or _is_locked():
            return False
        stamps = _Stamps().add(noted["files"]).add_trees(noted["trees"])
        return bool(stamps.hexdigest() == noted["stamps"])
    except (OSError, ValueError, TypeError, KeyError):
        return False


def begin() -> Look:
    """Call this before Snakemake plans."""
    began_ns = time.time_ns()
    try:
        return Look(began_ns, _Stamps().add_trees(map(str, SNAKEMAKES_NOTES)).hexdigest())
    except OSError:
        return Look(began_ns, "")  # which no digest is


def note(asked: Question, look: Look, jobs: JobFiles) -> bool:
    """Note that a plan of all jobs found nothing to do, unless something may have changed since it began.

    Args:
        asked: from after the plan.
        look: from before it.

    Returns:
        Whether there is a note now. A directory that cannot be written only costs planning again.
    """
    settled_ns = look.began_ns - SETTLED_NS
    try:
        if asked.newest_ns >= settled_ns or _is_locked():
            return False
        notes = _Stamps().add_trees(map(str, SNAKEMAKES_NOTES))
        if notes.hexdigest() != look.notes:
            return False
        everything = jobs.inputs | jobs.outputs
        read = sorted(path for path in jobs.inputs if Path(path).is_dir())
        files, trees = sorted(everything.difference(read)), [*map(str, SNAKEMAKES_NOTES), *read]
        stamps = _Stamps().add(files).add_trees(trees)
        if max(stamps.newest_ns, notes.newest_ns) >= settled_ns:
            return False
        noted = {
            "form": FORM, "question": asked.digest, "files": files, "trees": trees, "stamps": stamps.hexdigest(),
        }  # fmt: skip
        write_text(NOTE, json.dumps(noted))
    except (OSError, MachineError):
        return False
    return True


def forget() -> None:
    """Remove the note, before files are made."""
    NOTE.unlink(missing_ok=True)


class _Stamps:
    """A digest of how files are: type, inode, size, times."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()
        self.newest_ns = 0

    def add(self, files: Iterable[str]) -> "_Stamps":
        """Add files, or directories without what is in them. Of one that is not there, add the directory it was in.

        Raises:
            OSError: that is not there either.
        """
        for file in files:
            try:
                found = os.lstat(file)
            except FileNotFoundError:
                parent = os.path.dirname(file) or "."  # noqa: PTH120  # of tens of thousands
                self._add(f"{file} is gone", os.lstat(parent))
                continue
            self._add(file, found)
            if stat.S_ISLNK(found.st_mode):
                self._add(file, os.stat(file))  # noqa: PTH116  # of tens of thousands
        return self

    def add_trees(self, directories: Iterable[str]) -> "_Stamps":
        """Add directories with all that is in them.

        Raises:
            OSError: one cannot be read, or neither it nor the directory it was in is there.
        """
        for directory in directories:
            self.add([directory])
            if os.path.isdir(directory):  # noqa: PTH112  # of thousands
                self.add(_inside(directory))
        return self

    def hexdigest(self) -> str:
        """All that was added, in the order in which it was."""
        return self._sha256.hexdigest()

    def _add(self, file: str, found: os.stat_result) -> None:
        self.newest_ns = max(self.newest_ns, found.st_ctime_ns)
        stamp = (found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        self._sha256.update(f"{file}\0{stamp}\n".encode(errors="surrogateescape"))


def _inside(directory: str) -> Iterator[str]:
    with os.scandir(directory) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        yield entry.path
        if entry.is_dir():
            yield from _inside(entry.path)


def _is_locked() -> bool:
    return LOCKS.is_dir() and any(LOCKS.iterdir())


def _sources(plan: "Plan", model: str) -> list[str]:
    """The files that a model's jobs read and none makes: some are there only if they were found beside others."""
    return plan.reference_files(model) + plan.pass_files("transform", model) + plan.pass_files("build", model)


def _code() -> list[Path]:
    """The files of the package and of the workflow."""
    root = house.snakefile().parent
    places = dict.fromkeys([house.PACKAGE, *(root / name for name in ("rules", "profiles", "envs"))])
    found = [path for place in places for path in sorted(place.rglob("*")) if "__pycache__" not in path.parts]
    return [house.snakefile(), *(path for path in found if path.is_file())]


def _own_profiles() -> dict[Path, str]:
    """The profiles that Snakemake would load unasked, besides tvmake's own; by their file."""
    files = [file for one in _profile_places() for file in ([one] if one.is_file() else sorted(one.glob("*.yaml")))]
    return {file: file.read_text(errors="replace") for file in files}


def _profile_places() -> list[Path]:
    of_user = platformdirs.user_config_path("snakemake", "snakemake")
    of_system = platformdirs.site_config_path("snakemake", "snakemake")
    return [place / name for place in (Path(), of_user, of_system) for name in PROFILES]


def _libraries() -> list[str]:
    """The names of all distributions that Python finds, versions included, in the order it does."""
    found: list[str] = []
    for place in sys.path:
        try:
            names = os.listdir(place or ".")  # noqa: PTH208  # of some hundred names
        except OSError:
            continue
        found += sorted(name for name in names if name.endswith((".dist-info", ".egg-info", ".egg-link")))
    return found
