"""Commands on packages and bundles."""
