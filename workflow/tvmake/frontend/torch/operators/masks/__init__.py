"""Replace selections by masks, whose shapes depend on the data, by operators of fixed shape."""
