"""Self-tests of devices: small networks that every device can run, and their report."""
