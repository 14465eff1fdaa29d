"""Passes that vectorise loops, and vectorised computations."""
