"""Elements that a mask selects: how many there are depends on the data, what is made of them does not."""
