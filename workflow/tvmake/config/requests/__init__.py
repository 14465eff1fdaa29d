"""The request of each stage: exactly the options it reads, as they travel on its command line.

One module per stage, so that a change to one stage's options leaves the others' results alone.
"""
