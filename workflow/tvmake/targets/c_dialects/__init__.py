"""Passes that rewrite code which the generators for dialects of C (OpenCL, CUDA) get wrong."""
