"""The commands of ``tvmake device``."""
