"""Stages that build a package: build, export, and files in it or beside it."""
