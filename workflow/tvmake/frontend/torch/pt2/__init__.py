"""Load PyTorch's ``.pt2`` archives, after a check that they contain only tensors, a graph and plain arithmetic."""
