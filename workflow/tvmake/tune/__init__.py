"""Find fast schedules for a model's kernels: extract kernels, measure candidates, keep the best valid ones."""
