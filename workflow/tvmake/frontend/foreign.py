"""Work on a model's file: within limits of time and memory, and with one clear line for whatever it leads to."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tvmake.errors import InputError, TvmakeError
from tvmake.frontend.model_files import model_files
from tvmake.frontend.options import ImportOptions
from tvmake.process.limits import Limits, limited

FILES = frozenset({"onnx", "pt2", "tflite", "stablehlo"})
"""Formats that are files from elsewhere; the others are code that the user runs."""


@contextmanager
def foreign(options: ImportOptions) -> Iterator[None]:
    """A block that reads a model. Where its author is trusted, and where there is no file, it may take what it takes.

    Raises:
        InputError: the file leads to an exception that no check foresaw; the text says which, and where.
    """
    if options.source_format() not in FILES or options.trusted:
        yield
        return
    remedy = "if you trust its author, `trusted: true` lifts the limit"
    with limited(Limits.for_files([Path(file) for file in model_files(options)]), options.source, remedy):
        try:
            yield
        except (TvmakeError, MemoryError, ImportError):
            raise
        except Exception as error:
            raise unforeseen(options.source, error) from error


def unforeseen(where: str, error: Exception) -> InputError:
    """What to say of an exception from a library that was given a file: its type, its first line, and who called."""
    ours = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if f"{Path(__file__).parent.parent}/" in frame.filename
    ]
    place = f" (at {Path(ours[-1].filename).stem}.{ours[-1].name})" if ours else ""
    line = " ".join(str(error).split()).encode("ascii", "backslashreplace").decode()[:200]
    problem = f"cannot be read{place}: {type(error).__name__}{': ' if line else ''}{line}"
    return InputError(where, problem, "export the model again; if other programs read it, please report this line")
