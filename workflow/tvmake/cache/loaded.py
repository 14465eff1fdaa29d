"""When this process began to load code, and its environment at that time.

A step may be a fork of a process that loaded TVM when the run began. Code that was edited or installed since then is not what
the step runs, and variables that libraries read while loading have their earlier values. The command line imports this module
first in every process.
"""

import os
import time

AT = time.time()
"""Seconds since 1970."""

ENVIRONMENT = dict(os.environ)
