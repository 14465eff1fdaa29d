"""What keeps loops in vectors, and what is computed in them."""
