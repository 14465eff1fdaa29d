"""A Ctrl-C that comes while a record is queued leaves the lock of the queue taken."""

import sys

import snakemake.logging


def still_needed() -> bool:
    queue = snakemake.logging.Queue(-1)  # as LoggerManager makes it
    is_interruptible = type(queue).put.__code__ is not None if hasattr(type(queue).put, "__code__") else False
    print(f"the queue is {type(queue).__module__}.{type(queue).__qualname__}, whose put is Python: {is_interruptible}")
    return is_interruptible


if __name__ == "__main__":
    sys.exit(still_needed())
