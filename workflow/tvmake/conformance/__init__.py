"""Whether a device computes what it should, and how fast: small networks that every device can run, and their report."""
