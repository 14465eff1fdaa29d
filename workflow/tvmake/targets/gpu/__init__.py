"""Rules for the kernels of GPUs, besides those that TVM has."""
