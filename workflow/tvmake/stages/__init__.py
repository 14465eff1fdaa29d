"""One module per pipeline stage: its typed function, paths and a request in, files out, and its descriptor."""

SERVERS_FILE = "servers.json"
"""File in the directory of a run's fork servers that maps each stage to its server."""
