"""tvmake's notes in a project's ``.snakemake``: JSON with a sha256 of the content.

Damaged, altered and outdated notes are ignored: all of them can be recomputed.
"""

import json
import shlex
import stat
from pathlib import Path
from typing import Any

from tvmake.errors import MachineError
from tvmake.storage.files import digest_bytes, write_text
from tvmake.storage.plain_files import KINDS, open_plain


def write_state(path: Path, form: int, content: Any, *, aside: Path | None = None) -> None:
    """Write a note.

    Args:
        form: version of the structure of ``content``.
        content: a JSON value.
        aside: a directory for the temporary file (:func:`tvmake.storage.files.atomic_path`).

    Raises:
        MachineError: it cannot be written, or something else than a file is in its place.
        OSError: its directory cannot be made.
    """
    _check(path)
    write_text(path, _seal(form, json.dumps(content)), aside=aside)


def remove_note(path: Path) -> None:
    """Remove a note, if it is there.

    Raises:
        MachineError: something else than a file is in its place.
    """
    _check(path)
    path.unlink(missing_ok=True)


def not_a_note(path: Path) -> MachineError:
    """The error for something that tvmake has not put in the place of a note; nothing of it is removed."""
    if path.is_symlink():
        what = f"is a link, to {path.readlink()}"
    else:
        mode = stat.S_IFMT(path.stat().st_mode)
        what = f"is {'a directory' if stat.S_ISDIR(mode) else KINDS.get(mode, 'a file')}"
    command = (
        f"rm -r {shlex.quote(str(path))}" if path.is_dir() and not path.is_symlink() else f"rm {shlex.quote(str(path))}"
    )
    return MachineError(
        str(path), f"{what}, and nothing that tvmake or Snakemake has put there", f"move it elsewhere, or `{command}`"
    )


def _check(path: Path) -> None:
    """Refuse anything other than a regular file."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return
    if not stat.S_ISREG(mode):
        raise not_a_note(path)


def read_state(path: Path | str, form: int) -> Any:
    """The content of a note; None if it is missing, altered or has another version."""
    return state_in(read_note(path), form)


def read_note(path: Path | str) -> str:
    """The text of a note, intact or not; empty if it is missing."""
    try:
        with open_plain(path) as file:
            return file.read().decode()
    except (OSError, ValueError):
        return ""


def state_in(text: str, form: int) -> Any:
    """The content in a note's text; None if it is altered or has another version."""
    content = text.partition(CONTENT)[2].removesuffix("}")
    try:
        return json.loads(content) if text == _seal(form, content) else None
    except (ValueError, RecursionError):
        return None


CONTENT = ', "content": '


def _seal(form: int, content: str) -> str:
    return f'{{"form": {form}, "sha256": "{digest_bytes(content.encode())}"{CONTENT}{content}}}'
