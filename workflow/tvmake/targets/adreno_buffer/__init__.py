"""Adreno GPUs through OpenCL C, with tensors in buffers; the base of the texture and CLML backends."""
