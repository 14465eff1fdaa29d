"""Operators of PyTorch that TVM's importer lacks or gets wrong, a family a module."""
