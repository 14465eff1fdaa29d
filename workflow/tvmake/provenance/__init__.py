"""Where a package comes from and what is in it: statement, component list, signature, and how all three are checked."""
