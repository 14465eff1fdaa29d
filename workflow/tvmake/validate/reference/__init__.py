"""The source model itself, run by the framework it came from: one module a framework, and the file that keeps what it computed."""
