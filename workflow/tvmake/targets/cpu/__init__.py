"""CPUs: detection, layouts and arithmetic for their vectors, and schedules by rules."""
