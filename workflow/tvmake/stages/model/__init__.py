"""Stages of a model, before a target's kernels: import, reference, transform, calibrate."""
