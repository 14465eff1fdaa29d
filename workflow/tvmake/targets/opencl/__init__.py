"""Corrections for OpenCL kernels: function names, sorts and scans."""
