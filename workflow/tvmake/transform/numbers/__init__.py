"""What a network means where its operators, taken as TVM takes them, compute something else: NaN, infinities, divisions, wide sums."""
