"""CUDA candidates compiled when they are built, and the headers that this needs."""
