"""Self-tests of devices for correctness and speed: small networks that every device can run, and their report."""
