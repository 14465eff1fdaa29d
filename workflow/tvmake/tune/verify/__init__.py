"""Check candidates and records: outputs against the unscheduled kernel, records of others before they are used."""
