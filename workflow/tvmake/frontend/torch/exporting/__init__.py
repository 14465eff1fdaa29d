"""From a module to its exported program, which computes what the module does, whatever it is called with."""
