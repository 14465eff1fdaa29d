"""Indexing: reads and writes at positions that tensors hold."""
