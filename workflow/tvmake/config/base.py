"""The base of every config model: strict about keys, immutable once read."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=80)]
"""A name that becomes a directory: letters, digits, dot, dash and underscore."""

Positive = Annotated[int, Field(ge=1)]


class Strict(BaseModel):
    """Refuses unknown keys. Values arrive from YAML or from ``--config``, hence lax types ("4" is 4)."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, validate_default=True)
