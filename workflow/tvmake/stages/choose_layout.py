"""Choose layout: measure a few candidates of the heaviest kernels in each data layout, and take the fastest layout."""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tvmake.artifact import stage_json
from tvmake.artifact.files import atomic_path, digest_file, writing
from tvmake.artifact.module_files import save_module
from tvmake.artifact.tasks import Task
from tvmake.config.requests.tuning import ChooseLayoutRequest
from tvmake.config.transform import Layout
from tvmake.stages.extract import kernels_of
from tvmake.stages.tune import tune
from tvmake.tune.layouts import KernelLookedAt, LayoutChoice, LayoutEstimate, estimate, fastest, to_look_at
from tvmake.tune.search import NothingWorksError
from tvmake.tune.workload import Workload

PARAMS, SIGNATURE = "module.params", "signature.json"
"""What lies beside each candidate's module."""


def choose_layout(
    candidates: Sequence[Path],
    request: ChooseLayoutRequest,
    module: Path,
    params: Path,
    signature: Path,
    layout: Path,
    events: Path,
    locked: Layout | None = None,
) -> LayoutChoice:
    """Write ``module``, ``params`` and ``signature``, which are those of one candidate, ``layout`` (a LayoutChoice) and the
    log ``events``.

    What is measured goes to the records store and counts as tuning of the same kernels; what is there already is not
    measured again.

    Args:
        candidates: the network's module in each of ``request.layouts``, its parameters and signature beside it.
        locked: the layout to take, because a lock says so; nothing is measured then.

    Raises:
        InputError: the target or a user pass is wrong, or the stage's files are damaged.
        DeviceError: the device is lost, or no candidate works in any layout.
        MachineError: the store cannot be written, or a library is missing.
    """
    files = dict(zip(request.layouts, candidates, strict=True))
    if locked is not None:
        choice = LayoutChoice(layout=locked, trials=request.trials, estimates=[], because="as the lock says")
    elif len({(digest_file(file), digest_file(file.with_name(PARAMS))) for file in candidates}) == 1:
        choice = LayoutChoice(layout=request.layouts[0], trials=request.trials, estimates=[])
    else:
        estimates = _estimates(files, request, events)
        choice = LayoutChoice(layout=fastest(estimates), trials=request.trials, estimates=estimates)
    chosen = files[choice.layout]
    for source, destination in (
        (chosen.with_name(PARAMS), params),
        (chosen.with_name(SIGNATURE), signature),
        (chosen, module),
    ):
        with atomic_path(destination) as temporary:
            shutil.copyfile(source, temporary)
    stage_json.save(choice, layout)
    _tell(choice, events)
    return choice


def _estimates(files: Mapping[Layout, Path], request: ChooseLayoutRequest, events: Path) -> list[LayoutEstimate]:
    tasks: dict[Layout, list[Task]] = {}
    workloads: dict[str, Workload] = {}
    for layout, file in files.items():
        tasks[layout], to_tune = kernels_of(file, file.with_name(SIGNATURE), request.extract)
        workloads |= {one.key: one for one in to_tune}
    looked_at = to_look_at(tasks)
    known: dict[str, KernelLookedAt] = {}
    failed: dict[Layout, NothingWorksError] = {}
    for layout, task in _in_turn(looked_at):
        if layout in failed or task.workload in known:
            continue
        try:
            known[task.workload] = _measured(task, layout, workloads[task.workload], request, events)
        except NothingWorksError as error:
            failed[layout] = error
    if len(failed) == len(files):
        raise next(iter(failed.values()))
    return [
        LayoutEstimate(layout=layout, estimate_ms=None, share=0, problem=failed[layout].problem)
        if layout in failed
        # A kernel of several layouts is measured once, but each calls it as often as it does.
        else estimate(layout, tasks[layout], [known[task.workload].called(task.calls) for task in looked_at[layout]])
        for layout in files
    ]


def _in_turn(looked_at: Mapping[Layout, Sequence[Task]]) -> Iterator[tuple[Layout, Task]]:
    """One kernel of each layout after the other, so that a machine that slows down slows all layouts."""
    for rank in range(max(map(len, looked_at.values()))):
        for layout, tasks in looked_at.items():
            if rank < len(tasks):
                yield layout, tasks[rank]


def _measured(
    task: Task, layout: Layout, workload: Workload, request: ChooseLayoutRequest, events: Path
) -> KernelLookedAt:
    name = task.names[0]
    with TemporaryDirectory(prefix="tvmake-") as directory:
        kernel = Path(directory) / f"{task.workload}.json"
        save_module(workload.module, kernel)
        receipt = tune(
            kernel, f"{name} in {layout}", request.trials, request.tune, Path(directory) / "receipt.json", events
        )
    # One layout's kernels may have been tuned at length before; what compares is what the same effort finds.
    trials = min(request.trials, receipt.trials)
    latency = receipt.best_at(trials)
    if latency is None:
        trials, latency = receipt.trials, receipt.best_ms
    if latency is None:
        raise NothingWorksError(f"kernel {task.workload[:12]}", f"none of {trials} candidates of {name} worked")
    return KernelLookedAt(
        workload=task.workload, name=name, calls=task.calls, flops=task.flops, trials=trials, latency_ms=latency
    )


def _tell(choice: LayoutChoice, events: Path) -> None:
    """The last line of the log, for whoever watches."""
    with writing(events):
        events.parent.mkdir(parents=True, exist_ok=True)
        with events.open("a") as file:
            file.write(json.dumps({"at_s": 0.0, "event": "layout", "said": choice.said}) + "\n")
