"""Config to plan: variants, paths, each stage's options and fingerprint. Pure; imports no TVM, torch or Snakemake."""

from tvmake.plan.plan import Plan, Variant

__all__ = ["Plan", "Variant"]
