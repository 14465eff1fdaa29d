"""Types of config values: names, paths and counts."""

import re
from functools import partial
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StringConstraints

from tvmake.config.limits import MOST_REPETITIONS

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=80)]
"""A name that is used as a directory: letters, digits, dot, dash and underscore."""


def pattern_of(text: Any) -> str:
    """Return the regular expression of a string type such as :data:`Name`."""
    (constraints,) = text.__metadata__
    return next(
        str(part.pattern) for part in (constraints, *getattr(constraints, "metadata", ())) if hasattr(part, "pattern")
    )


def _local_path(text: str) -> str:
    if not text.strip():
        raise ValueError("expected a path; this one is empty")
    if text.startswith("-"):
        raise ValueError(f"a path that begins with '-' looks like an option to programs; write ./{text}")
    if unprintable := next((character for character in text if not character.isprintable()), None):
        if "\udc80" <= unprintable <= "\udcff":  # a byte that Python could not decode
            problem = f"its byte 0x{ord(unprintable) - 0xDC00:02x} is not text in this encoding"
            raise ValueError(f"{problem}; use a UTF-8 locale (export LC_ALL=C.UTF-8), or rename the file")
        raise ValueError(f"a path cannot contain the control character {unprintable!a}; remove it")
    if re.match(r"[A-Za-z]:\\", text):
        raise ValueError("Windows drives are not supported; in WSL, C:\\ is /mnt/c/")
    return text


def _directory(text: str) -> str:
    # A missing directory is created, with variables as part of its name.
    variables = r"\$\{?\w+\}?" if "://" in text else r"\$\{?\w+\}?|%\w+%"  # %20 is a space in a URL
    if variable := re.search(variables, _local_path(text)):
        raise ValueError(f"{variable[0]} is not replaced: environment variables are not expanded; write the whole path")
    return text


def _written_path(kind: str, text: str) -> str:
    path = PurePosixPath(_directory(text))
    if text != text.strip() or any(character in text for character in "{}"):
        raise ValueError(f"the {kind} directory cannot have braces, or spaces around its name; choose another one")
    if path.parts[:1] == (".snakemake",):
        raise ValueError(".snakemake is used by the workflow; choose another directory")
    if text.startswith("~"):
        raise ValueError("~ is expanded by shells only; write the whole path")
    if ".." in path.parts:
        raise ValueError("a directory outside the project needs an absolute path; write it from the first slash")
    if path == PurePosixPath():
        raise ValueError(f"the project directory cannot be the {kind} directory; name one in it, such as {kind}")
    if not text.strip("/"):
        raise ValueError(f"the root of the file system cannot be the {kind} directory; name one below it")
    return str(path)


LocalPath = Annotated[str, AfterValidator(_local_path)]
"""A path, URL or name that no program mistakes for an option."""

Directory = Annotated[str, AfterValidator(_directory)]
"""A directory or URL, created if it is missing."""

ResultsPath = Annotated[str, AfterValidator(partial(_written_path, "results"))]
"""The results directory, which is written and cleaned."""

LogsPath = Annotated[str, AfterValidator(partial(_written_path, "logs"))]
"""The directory of logs, which is written and cleaned."""

Repetitions = Annotated[int, Field(ge=1, le=MOST_REPETITIONS)]
"""Number of runs."""
