"""Targets and devices written as one line of text."""
