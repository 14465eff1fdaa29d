"""Adreno GPUs through OpenCL C, with tensors in buffers: what textures and CLML build on."""
