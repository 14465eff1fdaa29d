"""What kernels for CUDA need besides TVM's own passes."""
