"""A package in use: from files to its inputs, a run on any device, and what came of it."""
