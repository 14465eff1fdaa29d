"""Compile CUDA candidates at build time, and provide the headers for it."""
