"""Weights in the layout that a target's kernels want, once, when a package is built."""
