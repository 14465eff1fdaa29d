"""Kernels of any target: their names, memory, schedules, sizes of expressions, and what is kept out of fusion."""
