"""What code generators for dialects of C (OpenCL, CUDA) get wrong, rewritten before TVM lowers it."""
