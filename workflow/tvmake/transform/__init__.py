"""Graph rewrites that do not depend on the target: folding, layout, precision, user passes."""
