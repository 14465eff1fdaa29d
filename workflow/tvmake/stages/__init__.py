"""One module per pipeline stage: its typed function, paths and a request in, files out, and its descriptor."""

SERVERS_FILE = "servers.json"
"""Says, in the directory of a run's fork servers, from which of them each stage's command is forked."""
