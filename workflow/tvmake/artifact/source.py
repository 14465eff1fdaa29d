"""The source of a model."""

from pydantic import BaseModel, ConfigDict

from tvmake.errors import InputError
from tvmake.storage.documents import FailsFast
from tvmake.storage.notes.known_digests import has_digest


class SourceRecord(FailsFast, BaseModel):
    """The input of the import stage: the configured source, its files' digests, and the frontend's notes.

    No part of it is in a package; a file beside the package names it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    format: str
    files: dict[str, str]
    """sha256 by path as configured."""
    notes: dict[str, str | int | list[str]]
    """``weights`` is the sha256 of a PyTorch source's loaded or random weights."""

    def check_files(self) -> None:
        """Refuse source files that changed since the import.

        Raises:
            InputError: a file has changed since the import, or was deleted.
        """
        for name, digest in self.files.items():
            if not has_digest(name, digest):
                problem = f"has changed since it was imported, from sha256 {digest[:12]}…"
                raise InputError(name, problem, "`tvmake make` imports the current file")

    def summary(self) -> str:
        """Format and files with their sha256 in full, in one line; of a network that tvmake draws itself its name."""
        files = ", ".join(f"{name} sha256 {digest}" for name, digest in self.files.items())
        return f"{self.format}, {files or self.source}"
