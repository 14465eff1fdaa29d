"""Helpers to read and rewrite TVM's graphs."""
