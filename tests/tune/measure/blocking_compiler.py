"""A compiler driver that blocks on demand: builds that last as long as a test needs them, without processor time."""

from pathlib import Path

SCRIPT = """#!/bin/sh
# Without an answer, candidates are linked by this program instead of the linker that g++ names.
case "$1" in -print-*) exit ;; esac
if mv "{directory}/next" "{directory}/blocked" 2> /dev/null; then
    while [ -e "{directory}/blocked" ]; do
        kill -0 $PPID 2> /dev/null || exit 1
        sleep 0.02
    done
fi
exec g++ "$@"
"""


class BlockingCompiler:
    """Links like g++.

    Args:
        directory: a new directory for it.
    """

    def __init__(self, directory: Path):
        directory.mkdir()
        self._next, self._blocked = directory / "next", directory / "blocked"
        program = directory / "compiler"
        program.write_text(SCRIPT.format(directory=directory))
        program.chmod(0o755)
        self.path = str(program)

    def block_next(self) -> None:
        """Block the next build until :meth:`release`, or the end of the process that builds."""
        self.release()
        self._next.touch()

    def is_blocking(self) -> bool:
        """Whether a build is blocked, or was and has died."""
        return self._blocked.exists()

    def release(self) -> None:
        """Let the blocked build continue."""
        self._blocked.unlink(missing_ok=True)
