"""Directories that stages made, and what was in them: one that lacks a file is no result any more.

Snakemake asks only whether a directory is there. Without a file that a later stage reads, that stage would fail for ever. So
the directory goes, with all that its job made, and the job runs again where it is needed.
"""

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from tvmake.artifact.files import write_text

NOTES = Path(".snakemake") / "tvmake-directories.json"

READ = "workloads"
"""Name of the directories whose files later stages read."""


def note(outputs: Sequence[Path]) -> None:
    """Keep what is in those directories among a job's outputs that later stages read.

    Raises:
        MachineError: the notes cannot be written.
    """
    beside = [str(path) for path in outputs if path.name != READ]
    made = {
        str(path): {"files": sorted(_files(path)), "beside": beside}
        for path in outputs
        if path.name == READ and path.is_dir()
    }
    if made:
        write_text(NOTES, json.dumps({**_noted(), **made}))


def remove_incomplete() -> list[str]:
    """Remove what was made together with a directory that lacks a file by now; returns the directories' names."""
    gone = []
    for name, made in _noted().items():
        beside = [Path(path) for path in made["beside"]]
        if not set(made["files"]) <= _files(Path(name)) and any(path.exists() for path in [Path(name), *beside]):
            gone.append(name)
            shutil.rmtree(name, ignore_errors=True)
            for path in beside:
                path.unlink(missing_ok=True)
    return gone


def _files(directory: Path) -> set[str]:
    try:
        return {name for name in os.listdir(directory) if not name.startswith(".")}  # noqa: PTH208  # of every variant
    except (FileNotFoundError, NotADirectoryError):
        return set()


def _noted() -> dict[str, dict[str, list[str]]]:
    try:
        return dict(json.loads(NOTES.read_text()))
    except (OSError, ValueError, TypeError):
        return {}
