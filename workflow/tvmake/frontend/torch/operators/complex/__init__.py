"""Complex numbers, of which TVM has no types."""
