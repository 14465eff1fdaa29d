"""The baseline: the source model in its own framework, measured alternately with the package on the same machine."""
