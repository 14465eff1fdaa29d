"""Everything that knows Snakemake: running it, its events and errors, and what is up to date."""
