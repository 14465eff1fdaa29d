"""Quantise float networks to 8 bits: eligible matmuls and convolutions, ranges of their inputs, and rounding."""
