"""The checks behind ``tvmake doctor``: what this machine can do, and how to get what is missing."""
