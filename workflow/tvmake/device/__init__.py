"""Reach a device: push packages by digest, run them, time them. One interface for every transport."""
