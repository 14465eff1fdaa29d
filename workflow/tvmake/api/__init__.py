"""The Python interface, ``import tvmake``: models, and the results of a run. :mod:`tvmake.running` has packages."""
