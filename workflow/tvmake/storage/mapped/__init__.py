"""Files that are mapped to memory."""
