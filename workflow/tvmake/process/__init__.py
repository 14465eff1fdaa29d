"""Child processes.

``fork`` forks, ``supervised`` runs programs with a deadline, ``worker`` talks to a process that may hang or crash,
``isolation`` does work in forks that may crash, ``forkserver`` forks from processes with modules loaded,
``parent_death`` ends a process with the one that started it, and ``stopping`` has Ctrl-C and its like end a command in order.
"""
