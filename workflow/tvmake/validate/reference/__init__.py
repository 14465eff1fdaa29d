"""The source model, run by its own framework: one module per framework, and the file with its outputs."""
