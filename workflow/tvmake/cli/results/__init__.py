"""Commands on the results of a run."""
