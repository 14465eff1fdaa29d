"""Find fast schedules for a model's kernels: extract them, measure candidates, keep the best that are right."""
