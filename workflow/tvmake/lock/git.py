"""Git's information on a directory."""

import subprocess
from contextlib import suppress
from pathlib import Path

from tvmake.lock.document import Revision
from tvmake.storage.resources import PACKAGE, snakefile

TIMEOUT_S = 30

READ_ONLY = ("--no-optional-locks", "-c", "core.fsmonitor=false")
"""Options that prevent writes, and programs from the checkout's own configuration."""


def own_revision() -> Revision | None:
    """The commit of this tvmake: of its checkout, or the one that its wheel was built from; None if neither is known."""
    tree = snakefile().parent
    if not tree.is_relative_to(PACKAGE):
        return revision(tree)
    with suppress(OSError, ValueError):
        return Revision.model_validate_json((tree / "revision.json").read_bytes())
    return None


def revision(directory: Path) -> Revision | None:
    """The checkout's commit; None without git, a checkout, or a commit."""
    commit = _git(directory, "rev-parse", "--verify", "HEAD")
    if commit is None:
        return None
    status = _git(directory, "status", "--porcelain", "--untracked-files=no")
    return Revision(commit=commit.strip(), modified=bool(status and status.strip()))


def _git(directory: Path, *arguments: str) -> str | None:
    try:
        finished = subprocess.run(
            ["git", *READ_ONLY, "-C", str(directory), *arguments],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return finished.stdout if finished.returncode == 0 else None
