"""The files that models and datasets are made of."""
