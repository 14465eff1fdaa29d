"""Using a package: inputs from files, a run on any device, and its outputs."""
