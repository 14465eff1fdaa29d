"""A process that appends records until it is killed; it notes each one that the store has taken.

python -m tests.records.writer STORE NOTES FIRST COUNT BATCH
"""

import os
import sys
from pathlib import Path

from tests.records.examples import CONTEXT, CONV, record
from tvmake.records.store import RecordStore


def main() -> None:
    """See the module's docstring."""
    root, notes, first, count, batch = Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:6])
    store = RecordStore(root)
    handle = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for start in range(first, first + count, batch):
        made = [record(number) for number in range(start, start + batch)]
        store.append(CONTEXT, CONV, made)
        # One write after the append has returned: what is noted was flushed.
        os.write(handle, "".join(one.digest + "\n" for one in made).encode())


if __name__ == "__main__":
    main()
