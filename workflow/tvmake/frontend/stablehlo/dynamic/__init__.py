"""Operators of programs with dynamic dimensions, and their constraints."""
