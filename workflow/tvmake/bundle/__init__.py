"""A run for another site: config, lock, records and packages in one file, and its import."""
