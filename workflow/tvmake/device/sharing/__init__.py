"""Devices that several use, and several that are used as one: whose turn it is, and which one serves."""
