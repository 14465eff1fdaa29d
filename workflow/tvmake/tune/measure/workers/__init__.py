"""The processes that build and time candidates, and the messages to them."""
