"""The records that a tuning job told of: those, and no later ones, are what a variant is built from.

On a shared file system they may come into sight later than the job's receipt. And the store may have grown since: other
projects tune the same kernels at the same time.
"""

import os
import statistics
import time
from contextlib import suppress

from tvmake.errors import MachineError
from tvmake.records.record import Place
from tvmake.records.store import RecordStore, StoredRecord
from tvmake.tune.receipt import Receipt

PATIENCE_S = 90.0
"""NFS believes what it knows of a directory for up to 60 s (acdirmax in nfs(5)), the latency-wait of the cluster profiles."""

POLL_S = 0.5


def told_records(
    store: RecordStore, own: Place, workload: str, receipt: Receipt | None, patience_s: float = PATIENCE_S
) -> list[StoredRecord]:
    """The records of a workload that its receipt tells of, once they are there, or at least the best of them.

    Records are only ever added at the end, so that they are the first ones. Where some were pruned since, later ones may take
    their places. Without a receipt, or with one of another place, it is all records.

    Raises:
        MachineError: they do not come, or the store cannot be read.
    """
    until = time.monotonic() + patience_s
    while True:
        stored = store.load(own, workload)
        if receipt is None or receipt.place != own:
            return stored
        if _are_there(stored, receipt):
            return stored[: receipt.records]
        directory = store.journal(own, workload).directory
        if time.monotonic() > until:
            raise MachineError(
                str(directory),
                f"has {len(stored)} of the {receipt.records} records that the tuning of {receipt.name} left",
                "have all machines use one records store (tuning.store, TVMAKE_HOME); if records were removed on purpose,"
                " remove results/tuning as well, and the kernels are tuned again",
            )
        for seen in (directory.parent, directory):
            with suppress(OSError):
                os.listdir(seen)  # noqa: PTH208  # opening a directory makes NFS ask its server
        time.sleep(min(POLL_S, patience_s))


def _are_there(stored: list[StoredRecord], receipt: Receipt) -> bool:
    if len(stored) >= receipt.records:
        return True
    best = min((statistics.median(one.samples_s) * 1e3 for one in stored if one.status == "ok"), default=None)
    # Those who prune records keep the best ones.
    return best is not None and receipt.best_ms is not None and best <= receipt.best_ms
