"""The processors that a target may name, with their limits and where the numbers come from."""
