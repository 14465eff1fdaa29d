"""The base of option classes: what stages are configured with."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[int, Field(ge=1)]


class Strict(BaseModel):
    """Options that cannot be changed; unknown keys are refused. Types are lax ("4" is 4): values come from YAML and command lines."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, validate_default=True)
