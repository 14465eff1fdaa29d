"""tvmake's notes on a project: inputs and outputs of jobs, digests, listings, its own directories."""
