"""Target-independent graph rewrites: folding, layout, precision, user passes."""
