"""Convolutions of every kind as two-dimensional ones, with their padding."""
