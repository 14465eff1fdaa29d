"""A run for another site: config, lock, records and packages in one file, and how it is taken in."""
