"""Notes of tvmake's own in a project's ``.snakemake``: JSON with the sha256 of what it says.

What is damaged, altered or of another form is not read: everything in these notes can be found out again.
"""

import json
from pathlib import Path
from typing import Any

from tvmake.storage.files import digest_bytes, write_text


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
    write_text(path, _sealed(form, json.dumps(content)), aside=aside)


def read_state(path: Path, form: int) -> Any:
    """What a note says; None where there is none of this form that is as it was written."""
    try:
        text = path.read_text()
        content = text.partition(CONTENT)[2].removesuffix("}")
        return json.loads(content) if text == _sealed(form, content) else None
    except (OSError, ValueError, RecursionError):
        return None


CONTENT = ', "content": '


def _sealed(form: int, content: str) -> str:
    return f'{{"form": {form}, "sha256": "{digest_bytes(content.encode())}"{CONTENT}{content}}}'
