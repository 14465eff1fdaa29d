"""Stages that work on a model, before a target's kernels: import, reference, transform, calibrate."""
