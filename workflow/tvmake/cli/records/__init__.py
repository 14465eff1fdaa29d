"""The commands of ``tvmake records``."""
