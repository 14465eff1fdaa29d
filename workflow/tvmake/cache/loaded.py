"""When this process began to load code, and in which environment.

A step may be a fork of a process that has TVM loaded since the run began. What was edited or installed since then is not
what the step runs, and variables that libraries read as they load count as they were then. The command line imports
this module first of all, in such a process as in any other.
"""

import os
import time

AT = time.time()
"""Seconds since 1970."""

ENVIRONMENT = dict(os.environ)
