"""Stages of the search for fast kernels: extract tasks, spread the trials, tune, pick the best records."""
