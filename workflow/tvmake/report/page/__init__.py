"""The results as a page, and two runs compared as one: HTML that needs no network."""
