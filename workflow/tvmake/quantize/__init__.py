"""Integer arithmetic: quantised networks kept in integers, and ranges by which others become so."""
