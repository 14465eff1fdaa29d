"""Where a model came from."""

from pydantic import BaseModel, ConfigDict

from tvmake.errors import InputError
from tvmake.storage.documents import FailsFast
from tvmake.storage.notes.known_digests import has_digest


class SourceRecord(FailsFast, BaseModel):
    """What the import stage read: the source as configured, its files' digests, and what the frontend noted.

    Nothing of it is in a package; it is named beside one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    format: str
    files: dict[str, str]
    """sha256 by path as configured."""
    notes: dict[str, str | int | list[str]]
    """``weights`` is the sha256 of what a PyTorch source was loaded or drawn as."""

    def check_files(self) -> None:
        """Refuse files that are others than those that were imported.

        Raises:
            InputError: a file has changed since the import, or is gone.
        """
        for name, digest in self.files.items():
            if not has_digest(name, digest):
                problem = f"has changed since it was imported, from sha256 {digest[:12]}…"
                raise InputError(name, problem, "`tvmake make` again imports it as it is now")

    def summary(self) -> str:
        """Format and files with their sha256 in full, in one line; of a network that tvmake draws itself its name."""
        files = ", ".join(f"{name} sha256 {digest}" for name, digest in self.files.items())
        return f"{self.format}, {files or self.source}"
