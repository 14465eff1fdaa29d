"""Types of values in a config: names, paths and counts."""

import re
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StringConstraints

from tvmake.config.limits import MOST_REPETITIONS
from tvmake.config.text.typographic import in_quotation_marks

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=80)]
"""A name that becomes a directory: letters, digits, dot, dash and underscore."""


def pattern_of(text: Any) -> str:
    """The pattern of a text type such as :data:`Name`."""
    (constraints,) = text.__metadata__
    return str(constraints.pattern)


LONGEST_NAME = 255
"""Bytes of a file's name on all usual file systems."""


def _local_path(text: str) -> str:
    if not text.strip():
        raise ValueError("expected a path; this one is empty")
    if text.startswith("-"):
        raise ValueError(f"a path that begins with '-' looks like an option to programs; write ./{text}")
    if unprintable := next((character for character in text if not character.isprintable()), None):
        raise ValueError(f"a path holds no control characters such as {unprintable!a}; take it out")
    if in_quotation_marks(text):
        raise ValueError("a path in typographic quotation marks; write it in plain ones")
    if re.match(r"[A-Za-z]:\\", text):
        raise ValueError("there are no drives of Windows here; below WSL, C:\\ is /mnt/c/")
    if any(len(part.encode()) > LONGEST_NAME for part in text.split("/")):
        raise ValueError(f"a name in a path has at most {LONGEST_NAME} bytes; shorten it")
    return text


def _directory(text: str) -> str:
    # What is not there is made: under the name as it stands.
    variables = r"\$\{?\w+\}?" if "://" in text else r"\$\{?\w+\}?|%\w+%"  # %20 is a space in a URL
    if variable := re.search(variables, _local_path(text)):
        raise ValueError(
            f"{variable[0]} stays as it is: variables of the environment are not replaced; write the whole path"
        )
    return text


def _results_path(text: str) -> str:
    path = PurePosixPath(_directory(text))
    if text != text.strip() or any(character in text for character in "{}"):
        raise ValueError("the directory of results has no braces, and no space around its name; choose another one")
    if path.parts[:1] in (("logs",), (".snakemake",)):
        raise ValueError(f"{path.parts[0]} is used by the workflow; choose another directory")
    if text.startswith("~"):
        raise ValueError("~ is a shell's word for a home directory; write the whole path")
    if ".." in path.parts:
        raise ValueError("a directory outside the project is given as a whole path; write it from the first slash")
    if path == PurePosixPath():
        raise ValueError("the project's own directory is no directory of results; name one in it, such as results")
    if not text.strip("/"):
        raise ValueError("the root of the file system is no directory of results; name one below it")
    return str(path)


LocalPath = Annotated[str, AfterValidator(_local_path)]
"""A path, or a URL or name in its place, that every program takes for one."""

Directory = Annotated[str, AfterValidator(_directory)]
"""A directory, or a URL in its place, that is made where it is not there."""

ResultsPath = Annotated[str, AfterValidator(_results_path)]
"""A directory that is filled, and cleaned."""

Repetitions = Annotated[int, Field(ge=1, le=MOST_REPETITIONS)]
"""How often something is run."""
