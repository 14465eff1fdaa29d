"""The processes that build and time candidates, and their messages."""
