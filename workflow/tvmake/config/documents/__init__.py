"""What is written from the config models: the schema, the reference, a first config."""
