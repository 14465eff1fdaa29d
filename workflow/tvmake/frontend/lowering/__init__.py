"""Operators and arithmetic in Relax that several frontends share."""
