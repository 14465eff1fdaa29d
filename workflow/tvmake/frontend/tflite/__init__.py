"""TFLite: check and convert."""
