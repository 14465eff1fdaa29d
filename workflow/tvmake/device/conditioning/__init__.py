"""Temperatures, governor and clocks of a device: read, set before a measurement, restored."""
