"""Integer arithmetic: quantised networks kept in integers, ranges by which others become so, and weights in few bits."""
