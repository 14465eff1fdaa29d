"""Notes of tvmake's own in a project's ``.snakemake``: JSON with the sha256 of what it says.

What is damaged, altered or of another form is not read: everything in these notes can be found out again.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from tvmake.storage.files import digest_bytes, write_text
from tvmake.storage.plain_files import open_plain


def write_state(path: Path, form: int, content: Any, *, aside: Path | None = None) -> None:
    """Write a note.

    Args:
        form: number of the structure of ``content``.
        content: what JSON can say.
        aside: where it is written before it is put in place (:func:`tvmake.storage.files.atomic_path`).

    Raises:
        MachineError: it cannot be written.
        OSError: its directory cannot be made.
    """
    if path.is_dir():
        remove_note(path)
    write_text(path, _sealed(form, json.dumps(content)), aside=aside)


def remove_note(path: Path) -> None:
    """Remove what is in a note's place: a directory too, and a link, but not what it leads to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def read_state(path: Path | str, form: int) -> Any:
    """What a note says; None where there is none of this form that is as it was written."""
    return state_in(read_note(path), form)


def read_note(path: Path | str) -> str:
    """A note as it lies there, whole or not; empty where there is none."""
    try:
        with open_plain(path) as file:
            return file.read().decode()
    except (OSError, ValueError):
        return ""


def state_in(text: str, form: int) -> Any:
    """What the text of a note says; None where it is not of this form, or not as it was written."""
    content = text.partition(CONTENT)[2].removesuffix("}")
    try:
        return json.loads(content) if text == _sealed(form, content) else None
    except (ValueError, RecursionError):
        return None


CONTENT = ', "content": '


def _sealed(form: int, content: str) -> str:
    return f'{{"form": {form}, "sha256": "{digest_bytes(content.encode())}"{CONTENT}{content}}}'
