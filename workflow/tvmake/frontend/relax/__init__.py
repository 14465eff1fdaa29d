"""Import Relax modules that a user's function returns."""
