"""Sharing of devices: leases, turns, and groups of equal devices."""
