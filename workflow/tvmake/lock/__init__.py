"""run.lock: everything that determines a run, so that it can be repeated, byte for byte, and compared."""
