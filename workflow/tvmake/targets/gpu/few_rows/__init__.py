"""Products with few rows, whose sums threads share."""
