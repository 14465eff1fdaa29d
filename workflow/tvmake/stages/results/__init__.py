"""Stages that measure packages on devices, and those that gather the results."""
