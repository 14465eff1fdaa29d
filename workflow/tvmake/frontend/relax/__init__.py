"""Relax modules that a function of the user's returns."""
