"""Operators whose results have as many rows as the data select."""
