"""Reading and writing at places that tensors name."""
