"""Files: atomic writes, digests, archives, shared directories, and the locations of tvmake's own files."""
