"""Schedules from records: replayed, applied, checked, counted."""
