"""Correct TVM's arithmetic where it differs from the source: NaN, infinities, divisions, wide sums."""
