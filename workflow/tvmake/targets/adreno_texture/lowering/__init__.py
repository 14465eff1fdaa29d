"""Lower scheduled kernels to the input of OpenCL's code generator, for textures."""
