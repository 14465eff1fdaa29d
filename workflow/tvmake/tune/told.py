"""The records that a tuning job told of: on a shared file system they may come into sight later than its receipt."""

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
    """The records of a workload, once all that its receipt tells of are there, or at least its best.

    Raises:
        MachineError: they do not come, or the store cannot be read.
    """
    until = time.monotonic() + patience_s
    while True:
        stored = store.load(own, workload)
        if receipt is None or receipt.place != own or _are_there(stored, receipt):
            return stored
        directory = store.journal(own, workload).directory
        if time.monotonic() > until:
            raise MachineError(
                str(directory),
                f"has {len(stored)} of the {sum(receipt.by_status.values())} records that the tuning of {receipt.name} left",
                "have all machines use one records store (tuning.store, TVMAKE_HOME); if records were removed on purpose,"
                " remove results/tuning as well, and the kernels are tuned again",
            )
        for seen in (directory.parent, directory):
            with suppress(OSError):
                os.listdir(seen)  # noqa: PTH208  # opening a directory makes NFS ask its server
        time.sleep(min(POLL_S, patience_s))


def _are_there(stored: list[StoredRecord], receipt: Receipt) -> bool:
    if len(stored) >= sum(receipt.by_status.values()):
        return True
    best = min((statistics.median(one.samples_s) * 1e3 for one in stored if one.status == "ok"), default=None)
    # Those who prune records keep the best ones.
    return best is not None and receipt.best_ms is not None and best <= receipt.best_ms
