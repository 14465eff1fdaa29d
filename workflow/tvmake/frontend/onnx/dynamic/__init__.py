"""Operators on tensors whose sizes are known only when the network runs."""
