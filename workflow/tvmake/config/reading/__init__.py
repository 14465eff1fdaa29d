"""Read config files into the models and report all errors together."""
