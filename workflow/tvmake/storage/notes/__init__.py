"""What tvmake notes for itself in a project: what jobs read and made, digests, listings, directories of its own."""
