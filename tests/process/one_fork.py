"""Loaded by a server: the system starts one process for it, and then no more, as with ``ulimit -u``."""

import errno
import os

_fork = os.fork
_left = [1]


def fork() -> int:
    """As ``os.fork``, once."""
    if not _left:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    _left.pop()
    return _fork()


os.fork = fork
