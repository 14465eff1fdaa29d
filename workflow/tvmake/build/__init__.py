"""From a module to mod.so, mod.json and, when asked, the sources in between."""
