"""Parse targets and devices in one-line text form."""
