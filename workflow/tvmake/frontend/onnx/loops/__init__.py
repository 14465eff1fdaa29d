"""Loops whose number of iterations is known only at run time."""
