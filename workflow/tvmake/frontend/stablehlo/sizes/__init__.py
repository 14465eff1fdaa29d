"""Sizes of a program with dynamic dimensions: their names, arithmetic on them, and their values as tensors."""
