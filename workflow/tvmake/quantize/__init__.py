"""Integer arithmetic: quantised sources, calibrated quantisation of float networks, and weights in 4 or 8 bits."""
