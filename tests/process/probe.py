"""What a warm process looks like from inside, for the tests."""

import json
import os
import signal
import sys
import time
from pathlib import Path


def main(arguments: list[str]) -> int:
    """Do as the first argument says."""
    what, *rest = arguments
    if what == "tell":
        print(json.dumps({"argv": sys.argv, "cwd": str(Path.cwd()), "env": dict(os.environ), "pid": os.getpid()}))
        print("to stderr", file=sys.stderr)
        print(sys.stdin.read(), end="")
    elif what == "exit":
        sys.exit(int(rest[0]))
    elif what == "raise":
        raise ValueError("as asked")
    elif what == "crash":
        os.kill(os.getpid(), int(rest[0]))
    elif what == "wait":

        def noted(number: int, _frame: object) -> None:
            Path(rest[0]).write_text(f"signal {number}")
            sys.exit(3)

        signal.signal(signal.SIGTERM, noted)
        Path(rest[0]).write_text(str(os.getpid()))
        while True:  # a signal that comes just before a sleep is handled after it
            time.sleep(0.1)
    return 0
