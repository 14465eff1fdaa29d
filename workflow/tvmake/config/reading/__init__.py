"""From the text of config files to the models, with every error at once."""
