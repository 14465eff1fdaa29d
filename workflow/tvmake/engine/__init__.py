"""Everything that knows Snakemake: what it is asked, what it says, and what is remembered of its answers."""
