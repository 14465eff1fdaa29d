"""Propose candidates: design spaces, strategies, cost model, and the search for one kernel."""
