"""Choose layout: measure a few candidates of the most expensive kernels in each data layout, and choose the fastest layout."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmake.artifact import paths
from tvmake.artifact.size_points import points_text
from tvmake.config.requests.tuning import ChooseLayoutRequest
from tvmake.stages.descriptor import LOCK, Input, Log, Output, Stage
from tvmake.stages.tuning.extract import extract_request, kernels_of
from tvmake.stages.tuning.tune import SECONDS_PER_TRIAL, tune, tune_request
from tvmake.stages.user_files import user_files
from tvmake.storage.temporary import temporary_directory
from tvmake.transform.options import BUILD_POINTS, CANDIDATES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tvmake.artifact.tasks import Task
    from tvmake.records.workload import Workload
    from tvmake.stages.context import JobContext
    from tvmake.transform.options import Layout
    from tvmake.tune.layouts import LayoutChoice, LayoutEstimate, MeasuredKernel
    from tvmake.tune.search.search import NothingWorksError

PARAMS, SIGNATURE = "module.params", "signature.json"
"""Files beside each candidate's module."""

LAYOUT_KERNELS = 30
"""Maximum number of searches, of ``layout_trials`` candidates each, to choose a layout: its kernels in each layout."""


def choose_layout(
    candidates: Sequence[Path],
    request: ChooseLayoutRequest,
    module: Path,
    params: Path,
    signature: Path,
    layout: Path,
    events: Path,
    frozen: Path | None = None,
    variant: str = "",
) -> LayoutChoice:
    """Choose a data layout; write the network in it to ``module``, ``params`` and ``signature``, the choice to ``layout`` and the
    log to ``events``.

    Measurements go to the records store and count as tuning of the same kernels. Kernels that it has are not measured
    measured again.

    Args:
        candidates: the network's module in each of ``request.layouts``, with parameters and signature beside it.
        frozen: a lock with the layout; nothing is measured then.
        variant: variant in the lock, as ``model/precision/target``.

    Raises:
        InputError: the target or a user pass is wrong, or the stage's files are damaged.
        DeviceError: the device is lost, or no candidate works in any layout.
        MachineError: the store cannot be written, or a library is missing.
    """
    from tvmake.artifact import stage_json
    from tvmake.records.frozen import read_frozen
    from tvmake.storage.files import copy_file, digest_file
    from tvmake.tune.layouts import LayoutChoice, fastest

    files = dict(zip(request.layouts, candidates, strict=True))
    if frozen is not None:
        locked = read_frozen(frozen).layout_of(variant, frozen)
        choice = LayoutChoice(layout=locked, trials=request.trials, estimates=[], because="as the lock says")
    elif len({(digest_file(file), digest_file(file.with_name(PARAMS))) for file in candidates}) == 1:
        choice = LayoutChoice(layout=request.layouts[0], trials=request.trials, estimates=[])
    else:
        estimates = _estimate_layouts(files, request, events)
        choice = LayoutChoice(layout=fastest(estimates), trials=request.trials, estimates=estimates)
    chosen = files[choice.layout]
    for source, destination in (
        (chosen.with_name(PARAMS), params),
        (chosen.with_name(SIGNATURE), signature),
        (chosen, module),
    ):
        copy_file(source, destination, may_link=destination == params)
    stage_json.save(choice, layout)
    _log_choice(choice, events)
    return choice


def _estimate_layouts(files: Mapping[Layout, Path], request: ChooseLayoutRequest, events: Path) -> list[LayoutEstimate]:
    from tvmake.tune.layouts import LayoutEstimate, estimate, representative_kernels
    from tvmake.tune.search.search import NothingWorksError

    tasks: dict[Layout, list[Task]] = {}
    workloads: dict[str, Workload] = {}
    for layout, file in files.items():
        tasks[layout], to_tune = kernels_of(file, file.with_name(SIGNATURE), request.extract)
        workloads |= {workload.key: workload for workload in to_tune}
    chosen = representative_kernels(tasks)
    known: dict[str, MeasuredKernel] = {}
    failed: dict[Layout, NothingWorksError] = {}
    for layout, task in _interleave(chosen):
        if layout in failed or task.workload in known:
            continue
        try:
            known[task.workload] = _measure(task, layout, workloads[task.workload], request, events)
        except NothingWorksError as error:
            failed[layout] = error
    if len(failed) == len(files):
        raise next(iter(failed.values()))
    return [
        LayoutEstimate(layout=layout, estimate_ms=None, share=0, problem=failed[layout].problem)
        if layout in failed
        # A kernel of several layouts is measured once, but each layout calls it a different number of times.
        else estimate(layout, tasks[layout], [known[task.workload].called(task.calls) for task in chosen[layout]])
        for layout in files
    ]


def _interleave(chosen: Mapping[Layout, Sequence[Task]]) -> Iterator[tuple[Layout, Task]]:
    """Alternate between the layouts, so that a machine that slows down affects all of them."""
    for rank in range(max(map(len, chosen.values()))):
        for layout, tasks in chosen.items():
            if rank < len(tasks):
                yield layout, tasks[rank]


def _measure(
    task: Task, layout: Layout, workload: Workload, request: ChooseLayoutRequest, events: Path
) -> MeasuredKernel:
    from tvmake.artifact.module_files import save_module
    from tvmake.tune.layouts import MeasuredKernel
    from tvmake.tune.search.search import NothingWorksError

    name = task.names[0]
    with temporary_directory("tvmake-layouts-") as directory:
        kernel = Path(directory) / f"{task.workload}.json"
        save_module(workload.module, kernel)
        receipt = tune(
            kernel,
            f"{name} in {layout}",
            request.trials,
            request.tune,
            Path(directory) / "receipt.json",
            events,
            points_text(task.points),
        )
    # A layout's kernels may have been tuned at length before. Compare what the same number of trials finds.
    trials = min(request.trials, receipt.trials)
    latency = receipt.best_at(trials)
    if latency is None:
        trials, latency = receipt.trials, receipt.best_ms
    if latency is None:
        raise NothingWorksError(f"kernel {task.workload[:12]}", f"none of {trials} candidates of {name} worked")
    return MeasuredKernel(
        workload=task.workload, name=name, calls=task.calls, flops=task.flops, trials=trials, latency_ms=latency
    )


def _log_choice(choice: LayoutChoice, events: Path) -> None:
    """Append the choice to the log as its last line."""
    import json

    from tvmake.storage.files import writing

    with writing(events):
        events.parent.mkdir(parents=True, exist_ok=True)
        with events.open("a") as file:
            file.write(json.dumps({"at_s": 0.0, "event": "layout", "message": choice.summary}) + "\n")


def choose_layout_request(job: JobContext) -> ChooseLayoutRequest:
    """Which layouts are compared, and how."""
    return ChooseLayoutRequest(
        layouts=list(CANDIDATES),
        trials=job.tuning.layout_trials,
        extract=extract_request(job),
        tune=tune_request(job),
    )


def _files(arguments: Mapping[str, Any]) -> list[Path]:
    """Parameters and signatures of the candidates, and the user's passes."""
    networks = [file.with_name(name) for file in arguments["candidates"] for name in (PARAMS, SIGNATURE)]
    return [*networks, *user_files(passes=arguments["request"].extract.passes)]


def _candidates(artifact: str, parameter: str = "") -> Input:
    """An artifact in every layout."""
    return Input(
        artifact, parameter, lambda job: [job.file(artifact, layout=layout) for layout in CANDIDATES], is_many=True
    )


STAGE = Stage(
    name="choose_layout",
    summary="Choose the data layout in which a variant's most expensive kernels are fastest.",
    function=choose_layout,
    inputs=(
        _candidates("layouts/module.json", "candidates"),
        _candidates("layouts/module.params"),
        _candidates("layouts/signature.json"),
        Input(files=lambda job: job.pass_files(BUILD_POINTS)),
        LOCK,
    ),
    outputs=(
        Output("chosen/module.json", paths.VARIANT, "module", "The chosen layout's Relax module to write (JSON)."),
        Output("chosen/module.params", paths.VARIANT, "params", "Its parameters to write."),
        Output("chosen/signature.json", paths.VARIANT, "signature", "Its signature to write (JSON)."),
        Output("layout.json", paths.VARIANT, "layout", "The choice and its figures to write (JSON).", is_locked=False),
    ),
    logs=(
        Log("{model}/{precision}/{target}/choose_layout.log"),
        Log(
            "{model}/{precision}/{target}/choose_layout.events.jsonl",
            "events",
            "Log of trials to add to (JSON lines).",
        ),
    ),
    request_model=ChooseLayoutRequest,
    request=choose_layout_request,
    exists=lambda job: job.chooses_layout,
    subject=lambda arguments: arguments["module"].parent,
    reads=_files,
    report=lambda choice: (f"layout: {choice.summary}",),
    is_goal=True,
    is_hermetic=True,
    memory_mb=2500,
    minutes=60,
    more_seconds=lambda job: SECONDS_PER_TRIAL * job.tuning.layout_trials * LAYOUT_KERNELS,
    is_on_device=True,
    is_timing=True,
    server="tuner",
)
