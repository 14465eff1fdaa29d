"""Files: atomic writes, digests, archives, directories that are shared, and where tvmake keeps things."""
