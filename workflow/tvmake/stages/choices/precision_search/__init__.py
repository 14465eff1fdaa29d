"""The search of the choose_precision stage. A separate package, because it loads TVM, which stages' modules must not load."""
