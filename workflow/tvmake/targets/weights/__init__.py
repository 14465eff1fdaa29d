"""Convert weights to the layouts of a target's kernels once, when a package is built."""
