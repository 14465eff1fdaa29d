"""A directory for libraries that live for seconds."""

import tempfile
from contextlib import ExitStack
from pathlib import Path

from tvmake.storage.files import writing
from tvmake.storage.temporary import temporary_directory

PREFIX = "tvmake-measuring-"


class Scratch:
    """A temporary directory that is removed at the latest when the next one is made after its owner died.

    Raises:
        MachineError: it cannot be made.
    """

    def __init__(self) -> None:
        self._held = ExitStack()
        with writing(Path(tempfile.gettempdir())):
            self.path = self._held.enter_context(temporary_directory(PREFIX))

    def close(self) -> None:
        """Remove it."""
        self._held.close()
