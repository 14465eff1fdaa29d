"""From scheduled kernels to what OpenCL's code generator takes, for textures."""
