"""Rules for GPU kernels, in addition to TVM's."""
