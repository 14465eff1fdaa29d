"""Hostile inputs: what is mutated, how, and what the real commands make of it. One module a kind of file."""
