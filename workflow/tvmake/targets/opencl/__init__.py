"""What OpenCL's kernels need: its functions by name, sorts and scans that its compilers take."""
