"""Layers for Qualcomm's CLML library: supported patterns, code generation, and the OpenCL kernels used without CLML."""
