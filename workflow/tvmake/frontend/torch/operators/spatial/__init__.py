"""Operators on spatial dimensions: pooling, resizing, sampling."""
