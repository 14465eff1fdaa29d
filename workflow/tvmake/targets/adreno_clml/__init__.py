"""Layers for Qualcomm's CLML library: which it takes, how they are written into a package, and what runs without it."""
