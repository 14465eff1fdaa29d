"""One lookup in the cache as a line of JSON in the step's log; the report counts these."""

import json
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

Outcome = Literal["hit", "miss", "refused", "unavailable", "not cacheable"]
"""``refused``: there was an entry, and it was bad. ``unavailable``: the cache failed. All but ``hit`` ran the stage."""


class CacheLine(BaseModel):
    """One lookup."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cache: Outcome
    stage: str
    key: str | None = None
    """None without one."""
    bytes: int = 0
    """Size of the outputs from the cache."""
    saved_s: float = 0.0
    """The stage's run time minus the time to fetch its result, in seconds."""
    stored: bool = False
    """Whether the result was added to the cache."""


def write_line(line: CacheLine) -> str:
    """The line's text."""
    return json.dumps(line.model_dump(mode="json"))


def read_lines(log: str) -> list[CacheLine]:
    """The lines of a step's log."""
    lines = []
    for text in log.splitlines():
        if text.startswith('{"cache": '):
            try:
                lines.append(CacheLine.model_validate_json(text))
            except ValidationError:
                continue  # something that a library printed
    return lines
