"""How the choose_precision stage finds its assignment. A package of its own, because it loads TVM, which no stage's module does."""
