"""Latency: statistics over raw samples, per-kernel tables, comparison of two runs."""
