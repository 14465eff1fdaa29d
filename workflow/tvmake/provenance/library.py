"""What a package's library asks of the system that loads it, read without loading it."""

import tempfile
from pathlib import Path

from tvmake.artifact.package import LIBRARY
from tvmake.artifact.plain_tar import extract, read_tar
from tvmake.errors import InputError
from tvmake.target.elf import Library, read_library


def library_of(package: Path) -> Library:
    """Read the header of mod.so of a package that is intact.

    Raises:
        InputError: it is no shared library.
    """
    with tempfile.TemporaryDirectory(prefix="tvmake-library-") as directory:
        library = Path(directory) / LIBRARY
        for member in read_tar(package, "package", ""):
            if member.name == LIBRARY:
                extract(member, library, package, "")
        try:
            return read_library(library)
        except ValueError as error:
            raise InputError(str(package), f"{LIBRARY} is no library: {error}") from None
