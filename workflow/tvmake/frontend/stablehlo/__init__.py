"""StableHLO: check and convert."""
