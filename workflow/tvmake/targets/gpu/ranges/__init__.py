"""Kernels with dynamic dimensions: code for ranges of sizes, launches and indices."""
