"""Where a model came from."""

from pydantic import BaseModel, ConfigDict

from tvmake.storage.documents import FailsFast


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

    def summary(self) -> str:
        """Format and files with their sha256 in full, in one line; of a network that tvmake draws itself its name."""
        files = ", ".join(f"{name} sha256 {digest}" for name, digest in self.files.items())
        return f"{self.format}, {files or self.source}"
