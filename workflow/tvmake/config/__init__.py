"""The config as pydantic models: the only source of its keys, defaults, checks and JSON schema."""
