"""PyTorch: exported programs, factories, and the check that a file runs no code."""
