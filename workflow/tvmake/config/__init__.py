"""Config as pydantic models: the one source of keys, defaults, checks and the JSON schema."""
