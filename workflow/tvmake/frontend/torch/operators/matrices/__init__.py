"""Matrices: products, factors, singular values and groups of rows."""
