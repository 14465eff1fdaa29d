"""What ``import tvmake`` offers: models, and the results of a run. Packages are of :mod:`tvmake.running`."""
