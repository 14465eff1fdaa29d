"""How the choose_precision stage finds its assignment. Not beside the stages, because it loads TVM."""
