"""Is a records store the same one on a cluster's nodes as where the run was started?

A store that is not fails nothing: a node tunes into its own, and the next stage, on another node, finds no records. So
the run leaves a token in the store and names it to its jobs through the environment, and each job looks for it.
"""

import json
import os
import platform
from collections.abc import Iterable
from pathlib import Path
from uuid import uuid4

from tvmake.errors import MachineError
from tvmake.storage.files import write_text

VARIABLE = "TVMAKE_SHARED_STORES"
"""Holds the tokens by the store's path, as JSON."""

TOKEN = ".shared"
"""The file in a store that holds its token; written once."""


def announce(stores: Iterable[Path]) -> None:
    """Tell the jobs that will be started from here which stores they must find.

    Raises:
        MachineError: a store cannot be written.
    """
    tokens = {}
    for store in stores:
        file = store.absolute() / TOKEN
        if not file.is_file():
            write_text(file, f"{uuid4().hex}\n")
        tokens[str(file.parent)] = file.read_text()
    os.environ[VARIABLE] = json.dumps({"from": platform.node(), "stores": tokens})


def check() -> None:
    """In a job: look for the stores that were announced.

    Raises:
        MachineError: one is not there, or is another one.
    """
    announced = json.loads(os.environ.get(VARIABLE, "null")) or {"stores": {}}
    for store, token in announced["stores"].items():
        try:
            found = Path(store, TOKEN).read_text()
        except OSError:
            found = None
        if found != token:
            node = os.environ.get("SLURMD_NODENAME") or platform.node()
            raise MachineError(
                store,
                f"this records store of {announced['from']} is not the one that node {node} sees",
                "keep it where all nodes see the same: tuning.store, or TVMAKE_HOME (docs/guides/slurm.md)",
            )
