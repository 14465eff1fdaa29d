"""What this machine can do, and how to get what is missing: the checks behind ``tvmake doctor``."""
