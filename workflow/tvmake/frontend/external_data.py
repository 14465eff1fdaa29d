"""Find the files in which an ONNX model keeps its weights, under whatever names the model gives them."""

import json
import mmap
from contextlib import suppress
from pathlib import Path

from tvmake.errors import TvmakeError
from tvmake.frontend.options import ImportOptions
from tvmake.process.limits import isolated

MARK = b"location"
"""The key of a data file's name in the stored model."""


def external_files(options: ImportOptions) -> list[str]:
    """The existing files below the model's directory that an ONNX model names as external data; none for a model that cannot be read.

    The import checks them again, and refuses files elsewhere.
    """
    source = Path(options.source)
    if options.source_format() != "onnx" or not _has_mark(source):
        return []
    with suppress(TvmakeError, ImportError):  # the import reports what is wrong with the file
        names: list[str] = json.loads(isolated(lambda: json.dumps(_locations(source)).encode(), options.source))
        return [str(source.parent / name) for name in names if _is_below(source.parent, name)]
    return []


def _locations(source: Path) -> list[str]:
    from tvmake.frontend.onnx.source import external_locations

    return external_locations(source)


def _is_below(directory: Path, name: str) -> bool:
    file = directory / name
    return not Path(name).is_absolute() and file.is_file() and file.resolve().is_relative_to(directory.resolve())


def _has_mark(source: Path) -> bool:
    """Whether the file can name further files; most models cannot, and need not be parsed for it."""
    try:
        with source.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(MARK) >= 0
    except (OSError, ValueError):  # missing, or empty
        return False
