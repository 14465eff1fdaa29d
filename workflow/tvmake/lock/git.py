"""What git says of a directory."""

import subprocess
from pathlib import Path

from tvmake.lock.document import Revision

TIMEOUT_S = 30

READ_ONLY = ("--no-optional-locks", "-c", "core.fsmonitor=false")
"""Nothing is written, and no program of the checkout's own configuration is asked what has changed."""


def revision(directory: Path) -> Revision | None:
    """The checkout's commit; None where there is no git, no checkout, or no commit."""
    commit = _git(directory, "rev-parse", "--verify", "HEAD")
    if commit is None:
        return None
    status = _git(directory, "status", "--porcelain", "--untracked-files=no")
    return Revision(commit=commit.strip(), modified=bool(status and status.strip()))


def _git(directory: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *READ_ONLY, "-C", str(directory), *arguments],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
