"""The request of each stage: the options that it reads, passed on its command line.

One module per group of stages, so that a change to one stage's options does not invalidate the results of others.
"""
