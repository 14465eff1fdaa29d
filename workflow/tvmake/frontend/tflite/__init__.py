"""Import TFLite models: check, convert."""
