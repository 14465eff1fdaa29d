"""PyTorch's ``.pt2`` archives: held to tensors, a graph and plain arithmetic before PyTorch loads them."""
