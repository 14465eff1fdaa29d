"""Dynamic dimensions: kernels with sizes that are known at run time, and the order in which sizes are computed."""
