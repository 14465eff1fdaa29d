"""Stages that measure packages on devices, and stages that gather the results."""
