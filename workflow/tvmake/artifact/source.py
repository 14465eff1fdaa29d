"""Where a model came from."""

from pydantic import BaseModel, ConfigDict


class SourceRecord(BaseModel):
    """What the import stage read: the source as configured, its files' digests, and what the frontend noted."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    format: str
    files: dict[str, str]
    """sha256 by path as configured."""
    notes: dict[str, str | int | list[str]]
