"""Known processors with their limits and the sources of these figures."""
