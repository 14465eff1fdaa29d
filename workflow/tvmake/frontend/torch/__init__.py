"""PyTorch: exported programs, factories, and what tells a safe file from one that runs code."""
