"""Elements that a mask selects: their number depends on the data, the results computed here do not."""
