"""Stages that make a package: build, export, and what travels in it or stands beside it."""
