"""What frontends share: operators and arithmetic in Relax, whatever the source format."""
