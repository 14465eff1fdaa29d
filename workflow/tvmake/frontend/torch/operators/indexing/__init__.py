"""Reads and writes at indices in tensors."""
