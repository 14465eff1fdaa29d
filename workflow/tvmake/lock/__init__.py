"""run.lock: everything that determined a run, so that it can be made again, byte for byte, and compared."""
