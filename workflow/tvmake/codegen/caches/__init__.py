"""States to which each run appends rows, such as a decoder's keys and values, written in place."""
