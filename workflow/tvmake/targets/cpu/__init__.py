"""CPUs: which one this is, the layout and the arithmetic that its vectors want, and schedules by rules."""
