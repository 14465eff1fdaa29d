"""Stages that choose by measuring: they tune, build and run variants of a model before its own are made."""
