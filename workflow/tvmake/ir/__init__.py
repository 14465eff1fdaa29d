"""Reading and rewriting TVM's graphs: what every room that looks into one needs."""
