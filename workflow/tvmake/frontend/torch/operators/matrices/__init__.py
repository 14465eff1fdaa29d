"""Matmuls, grouped matmuls and linear algebra."""
