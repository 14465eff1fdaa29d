"""Results as people and programs read them: summary, table, page, comparison of two runs."""
