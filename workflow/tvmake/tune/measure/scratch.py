"""A directory for short-lived libraries."""

import tempfile
from contextlib import ExitStack
from pathlib import Path

from tvmake.storage.files import writing
from tvmake.storage.temporary import temporary_directory

PREFIX = "tvmake-measuring-"


class Scratch:
    """A temporary directory. If its owner dies, the creation of the next one removes it.

    Raises:
        MachineError: the directory cannot be created.
    """

    def __init__(self) -> None:
        self._held = ExitStack()
        with writing(Path(tempfile.gettempdir())):
            self.path = self._held.enter_context(temporary_directory(PREFIX))

    def close(self) -> None:
        """Remove the directory."""
        self._held.close()
