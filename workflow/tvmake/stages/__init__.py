"""One typed function per pipeline stage: paths and options in, files out. No Snakemake, no printing."""
