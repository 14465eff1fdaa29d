"""Schedules for kernels on CPUs, chosen by rules alone: no device, no measurement, the same for the same kernel and target.

TVM has none for CPUs, so that its kernels are plain loops on one core.
"""
