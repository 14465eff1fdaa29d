"""Kernels of any target: names, memory, schedules, expression sizes, and exceptions from fusion."""
