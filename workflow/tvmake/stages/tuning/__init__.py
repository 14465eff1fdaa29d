"""Stages of tuning: extract tasks, spread the trials, tune, pick the best records."""
