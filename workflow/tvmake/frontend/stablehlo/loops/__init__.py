"""Loops: unrolled, as one kernel, or as functions that call each other."""
