"""Check that a cluster's nodes and the machine that started the run use the same records store.

Different stores fail nothing by themselves: a node tunes into its own store, and the next stage, on another node, finds no
records. So the run writes a token into the store and passes it to its jobs through the environment; each job checks it.
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
"""The tokens by the store's path, as JSON."""

TOKEN = ".shared"
"""The file in a store with its token; written once."""


def announce(stores: Iterable[Path]) -> None:
    """Pass the tokens of stores to the jobs that start from this process.

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
    """Check the announced stores in a job.

    Raises:
        MachineError: a store is missing or is a different one.
    """
    announced = json.loads(os.environ.get(VARIABLE, "null")) or {"stores": {}}
    for store, token in announced["stores"].items():
        try:
            present = Path(store, TOKEN).read_text()
        except OSError:
            present = None
        if present != token:
            node = os.environ.get("SLURMD_NODENAME") or platform.node()
            raise MachineError(
                store,
                f"the records store of {announced['from']} is not the one on node {node}",
                "use a directory that all nodes share: tuning.store, or TVMAKE_HOME (docs/guides/slurm.md)",
            )
