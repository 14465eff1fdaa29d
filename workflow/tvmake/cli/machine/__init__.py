"""Commands on what this machine and this TVM can do."""
