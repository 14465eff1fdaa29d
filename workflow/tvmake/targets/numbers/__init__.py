"""Numerics that networks expect and TVM computes differently, for all targets or several kinds."""
