"""Records for others: files of them, and stores that several machines share."""
