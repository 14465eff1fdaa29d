"""Files between stages: atomic writes, digests, stage files, packages and their manifests."""
