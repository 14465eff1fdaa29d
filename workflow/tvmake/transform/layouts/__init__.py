"""Layout candidates, and rewrites that ConvertLayout needs."""
