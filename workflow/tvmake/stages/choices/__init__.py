"""Stages that choose by measuring: they tune, build and run candidates before a model's variants are built."""
