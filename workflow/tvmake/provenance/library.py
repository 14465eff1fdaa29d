"""The requirements of a package's library on the system that loads it, read without loading it."""

from pathlib import Path

from tvmake.artifact.elf import Library, read_library
from tvmake.artifact.package import LIBRARY
from tvmake.errors import InputError
from tvmake.storage.tar import extract, read_tar
from tvmake.storage.temporary import temporary_directory


def library_of(package: Path) -> Library:
    """Read the header of mod.so of an intact package.

    Raises:
        InputError: it is not a shared library.
    """
    with temporary_directory("tvmake-library-") as directory:
        library = Path(directory) / LIBRARY
        for member in read_tar(package, "package", ""):
            if member.name == LIBRARY:
                extract(member, library, package, "")
        try:
            return read_library(library)
        except ValueError as error:
            raise InputError(str(package), f"{LIBRARY} is not a shared library: {error}") from None
