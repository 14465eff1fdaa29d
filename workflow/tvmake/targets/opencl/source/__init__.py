"""Corrections of the OpenCL source that TVM writes for images."""
