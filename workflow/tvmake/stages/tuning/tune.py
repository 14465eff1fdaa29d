"""Tune: search for one kernel until its budget of measured candidates is reached."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tvmake.artifact import paths
from tvmake.artifact.size_points import NO_POINTS, parse_points, points_text
from tvmake.config.requests.tuning import SearchOptions, TuneRequest
from tvmake.stages.descriptor import Input, Log, Output, Parameter, Stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tvmake.stages.context import JobContext
    from tvmake.tune.receipts import Receipt
    from tvmake.tune.search.search import Search

SECONDS_PER_TRIAL = 10
"""Average time limit of one candidate with all its steps; 1 to 3 s were observed."""


def tune(
    kernel: Path, name: str, trials: int, request: TuneRequest, receipt: Path, events: Path, points: str = NO_POINTS
) -> Receipt:
    """Measure candidates of a kernel until its records have ``trials`` of them; write ``receipt`` and the log ``events``.

    Candidates in the store count. Each measurement is stored immediately, so that a killed job loses at most the candidates
    in progress.

    Args:
        kernel: the workload, from the extract stage.
        points: sizes of its dynamic dimensions at which candidates are measured, as a JSON list of ``SizePoint``.

    Raises:
        InputError: the kernel cannot be scheduled.
        DeviceError: no candidate works, or the device is lost, or cannot run such kernels.
        MachineError: the store cannot be written, or a library is missing.
    """
    import json

    from tvmake.artifact.module_files import load_module
    from tvmake.codegen.tunable import mean_flops
    from tvmake.device.connect import connect
    from tvmake.device.limits import FLOAT16, check_limits
    from tvmake.records.store import RecordStore, records_root
    from tvmake.records.workload import workload
    from tvmake.targets.adreno_texture.images import images, largest
    from tvmake.targets.backends import backend_of, device_kind
    from tvmake.targets.resolve import tvm_target
    from tvmake.tune.context import cores, tuning_context
    from tvmake.tune.measure.connect import measurer
    from tvmake.tune.search import transfer
    from tvmake.tune.search.events import EventLog
    from tvmake.tune.search.nearest import Shape
    from tvmake.tune.search.search import Search

    target = tvm_target(request.target, f"targets.{request.target_name}")
    tuned = workload(load_module(kernel)["main"], target)
    sizes = parse_points(points)
    operations = mean_flops(tuned.module["main"], sizes)
    fingerprint = connect(request.device_name, request.device).fingerprint(device_kind(target))
    code = kernel.read_text()
    used = largest(images(tuned.module["main"]))
    check_limits(fingerprint, json.loads(str(target)), f'"{FLOAT16}"' in code, request.target_name, used)
    context = tuning_context(target, fingerprint)
    store = RecordStore(Path(request.store) if request.store else records_root())
    store.define(context, tuned.key, {"name": name, "module": code, **Shape.of(tuned).description})
    if request.shared:
        # fsspec takes half a second to import.
        from tvmake.records.sharing import shared

        shared.pull(store, request.shared, context)
    with EventLog(events, name, tuned.key, trials, operations) as log:
        search = Search(
            workload=tuned,
            context=context,
            store=store,
            measuring=lambda: measurer(request, target, log.device_set_aside),
            device=fingerprint,
            options=request.search,
            trials=trials,
            target=backend_of(target).search_target(target, cores(request.device, fingerprint)),
            threads=1,
            points=sizes,
            finalists=request.finalists,
            transferred=transfer.load(context, tuned.key, request.search.seed) if request.search.warm_start else (),
            watch=log.trial,
        )
        stopped = search.run()
        log.stopped(stopped, search.best_ms)
    if search.features is not None:
        transfer.save(context, tuned.key, search.features)
    if request.shared:
        from tvmake.records.sharing import shared

        shared.push(store, request.shared, context, [tuned.key])
    return _write_receipt(search, name, operations, stopped, receipt)


def _write_receipt(search: Search, name: str, operations: float, stopped: str, receipt: Path) -> Receipt:
    from collections import Counter

    from tvmake.artifact import stage_json
    from tvmake.records.store import of_sizes
    from tvmake.tune.receipts import Receipt, curve

    context, key = search.context, search.workload.key
    stored = of_sizes(search.store.load(context, key), search.points)
    written = Receipt(
        workload=key,
        name=name,
        place=context,
        flops=operations,
        trials=sum(record.status != "device_lost" for record in stored),
        measured_now=search.measured,
        stopped=stopped,
        comparison=search.comparison,
        by_status=dict(Counter(record.status for record in stored)),
        curve=curve(stored),
        points=tuple(search.points),
    )
    stage_json.save(written, receipt)
    return written


def tune_request(job: JobContext) -> TuneRequest:
    """Options of searching and measuring a kernel of the target."""
    options = job.tuning
    return TuneRequest(
        **job.target_fields,
        **job.device_fields,
        search=SearchOptions(**{name: getattr(options, name) for name in SearchOptions.model_fields}),
        measure=options.measure,
        store=options.store,
        shared=options.shared,
    )


def _round_request(job: JobContext) -> TuneRequest:
    """The same; the last round ends with a comparison."""
    is_last = job.number == str(job.rounds)
    return tune_request(job).model_copy(update={"finalists": job.tuning.finalists if is_last else 0})


def _line(receipt: Receipt) -> Iterator[str]:
    best = f"{receipt.best_ms:.4g} ms" if receipt.best_ms else "no candidate works"
    yield (
        f"{receipt.name}: {receipt.measured_now} candidates measured, {receipt.trials} in all,"
        f" best {best} ({receipt.stopped})"
    )


STAGE = Stage(
    name="tune",
    summary="Search for one kernel until its budget is spent, and store the records.",
    function=tune,
    inputs=(Input("workloads/{workload}.json", "kernel", round=lambda job: int(job.number)),),
    outputs=(Output("{workload}.json", paths.ROUND, "receipt", "Receipt to write (JSON)."),),
    logs=(
        Log("tuning/{target}/round{number}/{workload}.log"),
        Log(
            "tuning/{target}/round{number}/{workload}.events.jsonl",
            "events",
            "Log of trials to add to (JSON lines).",
        ),
    ),
    request_model=TuneRequest,
    request=_round_request,
    exists=lambda job: job.is_tuned,
    parameters=(
        Parameter("name", str, "Name of the kernel.", lambda job: job.kernel.name),
        Parameter(
            "trials", int, "Number of candidates in the store at the end.", lambda job: job.kernel.trials, minimum=1
        ),
        Parameter(
            "points",
            str,
            "Sizes of dynamic dimensions at which candidates are measured (JSON).",
            lambda job: points_text(job.kernel.points),
        ),
    ),
    subject=lambda arguments: arguments["name"],
    report=_line,
    memory_mb=2000,
    minutes=30,
    more_seconds=lambda job: SECONDS_PER_TRIAL * job.kernel.trials,
    holds_weights=False,
    is_on_device=True,
    is_timing=True,
    server="tuner",
    preload=("tvmake.tune.preload",),
)
