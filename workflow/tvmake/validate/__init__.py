"""Numerics: samples, the source model's own outputs, and the comparison of a package with them."""
