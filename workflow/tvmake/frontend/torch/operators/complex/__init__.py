"""Complex numbers, for which TVM has no types."""
