"""Config to plan: variants, paths, each stage's options and fingerprint. Pure; imports no TVM, torch or Snakemake."""
