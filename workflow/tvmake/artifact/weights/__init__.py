"""The weights of a network on disk."""
