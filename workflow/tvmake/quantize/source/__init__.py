"""Quantisation in the source model: rounded activations, and weights in few bits."""
