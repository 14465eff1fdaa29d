"""Import StableHLO programs: check, convert."""
