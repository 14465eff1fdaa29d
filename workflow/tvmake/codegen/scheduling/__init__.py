"""Schedules from records: replay, application, checks and coverage."""
