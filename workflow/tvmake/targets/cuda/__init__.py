"""Corrections for CUDA kernels, in addition to TVM's own passes."""
