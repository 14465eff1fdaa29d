"""Weights and tables in 4 or 8 bits with float arithmetic: rounding, memory layout and kernels."""
