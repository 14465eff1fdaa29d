"""Weights and tables in 4 or 8 bits, everything else in float: how they are rounded, lie in memory, and are read by kernels."""
