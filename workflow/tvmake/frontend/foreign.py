"""Read a model's file within limits of time and memory, and report any exception in one line."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tvmake.errors import InputError, TvmakeError
from tvmake.frontend.model_files import model_files
from tvmake.frontend.options import ImportOptions
from tvmake.process.limits import Limits, limited

FILES = frozenset({"onnx", "pt2", "tflite", "stablehlo", "transformers"})
"""Formats that are files; sources of the others are code that the user runs."""

LIBRARY_LIMITS = {"transformers": Limits(processor_s=240, memory_mb=2000)}
"""What loading a format's library and tracing its network take in addition."""


@contextmanager
def foreign(options: ImportOptions) -> Iterator[None]:
    """Limit a block that reads a model's file. A trusted source and one without a file have no limits.

    Raises:
        InputError: the block raised an exception that no check foresaw; the message has its type, text and origin.
    """
    if options.source_format() not in FILES or options.trusted:
        yield
        return
    remedy = "if you trust its author, `trusted: true` lifts the limit"
    limits = Limits.for_files([Path(file) for file in model_files(options)])
    if (library := LIBRARY_LIMITS.get(str(options.source_format()))) is not None:
        limits += library
    with limited(limits, options.source, remedy):
        try:
            yield
        except (TvmakeError, MemoryError, ImportError):
            raise
        except Exception as error:
            raise unforeseen_error(options.source, error) from error


def unforeseen_error(where: str, error: Exception) -> InputError:
    """The error for an exception that a library raised on a file: its type, its text, and the caller."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if f"{Path(__file__).parent.parent}/" in frame.filename
    ]
    caller = f" (at {Path(frames[-1].filename).stem}.{frames[-1].name})" if frames else ""
    line = " ".join(str(error).split()).encode("ascii", "backslashreplace").decode()[:200]
    problem = f"cannot be read{caller}: {type(error).__name__}{': ' if line else ''}{line}"
    return InputError(where, problem, "export the model again; if other programs read it, please report this line")
