"""Pooling, resizing and grid sampling."""
