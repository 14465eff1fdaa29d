"""Layouts: which there are to choose from, and what ConvertLayout needs done before it."""
