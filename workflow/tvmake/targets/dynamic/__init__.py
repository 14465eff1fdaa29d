"""Dynamic dimensions: kernels whose sizes are known at run time, and the order in which sizes are computed."""
