"""Compile a module to mod.so, mod.json and, on request, the generated sources."""
