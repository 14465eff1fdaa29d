"""Products of small integers, by the instructions that a processor has for them."""
