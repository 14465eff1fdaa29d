"""Tune: search for one kernel until it has its budget of measured candidates."""

import json
from collections import Counter
from pathlib import Path

from tvmake.artifact import stage_json
from tvmake.artifact.module_files import load_module
from tvmake.config.requests.tuning import TuneRequest
from tvmake.device.connect import connect
from tvmake.device.limits import FLOAT16, check_limits
from tvmake.records.record import Place
from tvmake.records.store import RecordStore, records_root
from tvmake.target.resolve import tvm_target
from tvmake.tune import lessons
from tvmake.tune.events import EventLog
from tvmake.tune.measuring.connect import measurer
from tvmake.tune.measuring.kernel import device_kind
from tvmake.tune.place import cores, place
from tvmake.tune.receipt import Receipt, curve
from tvmake.tune.search import Search
from tvmake.tune.spaces import for_rules
from tvmake.tune.trivial import flops
from tvmake.tune.workload import Workload, workload


def tune(kernel: Path, name: str, trials: int, request: TuneRequest, receipt: Path, events: Path) -> Receipt:
    """Bring the records of a kernel to ``trials`` measured candidates; write ``receipt`` and the log ``events``.

    Candidates that are in the store already count. Every measured one is stored at once, so that a job that dies loses
    at most those it was at.

    Args:
        kernel: the workload, as extract wrote it.
        threads: for the search and for builders.

    Raises:
        InputError: the kernel cannot be scheduled.
        DeviceError: no candidate works, or the device is lost, or cannot run such kernels.
        MachineError: the store cannot be written, or a library is missing.
    """
    target = tvm_target(request.target, f"targets.{request.target_name}")
    own = workload(load_module(kernel)["main"], target)
    fingerprint = connect(request.device_name, request.device).fingerprint(device_kind(target))
    code = kernel.read_text()
    check_limits(fingerprint, json.loads(str(target)), f'"{FLOAT16}"' in code, request.target_name)
    where = place(target, fingerprint)
    store = RecordStore(Path(request.store) if request.store else records_root())
    store.define(where, own.key, {"name": name, "module": code})
    if request.shared:
        # fsspec takes half a second to import.
        from tvmake.records import shared

        shared.pull(store, request.shared, where)
    with EventLog(events, name, own.key, trials, flops(own.module["main"])) as log:
        search = Search(
            workload=own,
            place=where,
            store=store,
            measuring=lambda: measurer(request, target, log.aside),
            device=fingerprint,
            options=request.search,
            trials=trials,
            target=for_rules(target, cores(request.device, fingerprint)),
            threads=1,
            lessons=lessons.recall(where, own.key, request.search.seed) if request.search.warm_start else (),
            watch=log.trial,
        )
        stopped = search.run()
        log.stopped(stopped, search.best_ms)
    if search.lesson is not None:
        lessons.keep(where, own.key, search.lesson)
    if request.shared:
        from tvmake.records import shared

        shared.push(store, request.shared, where, [own.key])
    return _write_receipt(store, where, own, name, search, stopped, receipt)


def _write_receipt(
    store: RecordStore, where: Place, own: Workload, name: str, search: Search, stopped: str, receipt: Path
) -> Receipt:
    stored = store.load(where, own.key)
    written = Receipt(
        workload=own.key,
        name=name,
        place=where,
        flops=flops(own.module["main"]),
        trials=sum(one.status != "device_lost" for one in stored),
        measured_now=search.measured,
        stopped=stopped,
        by_status=dict(Counter(one.status for one in stored)),
        curve=curve(stored),
    )
    stage_json.save(written, receipt)
    return written
