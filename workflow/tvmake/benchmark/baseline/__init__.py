"""The baseline: the source model in the framework it came from, measured by turns with the package on the same machine."""
