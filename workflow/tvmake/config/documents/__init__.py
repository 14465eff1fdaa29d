"""Documents generated from the config models: the schema, the reference and a starter config."""
