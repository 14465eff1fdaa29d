"""Float networks made 8-bit ones: which products can be, the ranges of what they read, and the calls that round it."""
