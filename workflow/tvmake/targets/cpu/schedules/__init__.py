"""Schedules for kernels on CPUs by rules: no device, no measurement, deterministic for each kernel and target.

TVM has no such rules for CPUs, so its kernels are plain loops on one core.
"""
