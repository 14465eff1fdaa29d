"""Attributes of modules by which one stage tells a later one of a network."""

TF32 = "tvmake.tf32"
"""That float32 may be multiplied in TF32 by GPUs that do."""
