"""Find the first operator whose output departs from the original framework's, and why."""
