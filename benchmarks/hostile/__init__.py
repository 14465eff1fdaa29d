"""Hostile inputs: samples, mutations, and the results of the real commands. One module for each kind of file."""
