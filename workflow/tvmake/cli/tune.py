"""``tvmake tune``: search for fast kernels of one model on one target, without a config."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvmake.cli.configs import AsJson, Settings
from tvmake.cli.single import (
    Cores,
    Dimensions,
    Model,
    OnDevice,
    PackageShapes,
    Precision,
    Quiet,
    Shapes,
    State,
    Target,
    Trusted,
    Values,
)
from tvmake.plan.single import NATIVE

if TYPE_CHECKING:
    from tvmake.records.best import BestKernel, BestSet


def tune(
    model: Model,
    target: Target = NATIVE,
    trials: Annotated[
        int,
        typer.Option(
            "--trials",
            "-n",
            min=1,
            metavar="N",
            help="Number of measurements, spread over the kernels; earlier runs count.",
        ),
    ] = 256,
    precision: Precision = "float32",
    shapes: Shapes = None,
    values: Values = None,
    state: State = None,
    dims: Dimensions = None,
    package_shapes: PackageShapes = None,
    device: OnDevice = None,
    kernels: Annotated[
        list[str] | None,
        typer.Option(
            "--kernels",
            metavar="NAME,…",
            help="Tune only these kernels, by the names in --list; * matches anything.",
        ),
    ] = None,
    list_only: Annotated[
        bool,
        typer.Option("--list", help="List the kernels that can be tuned, the most expensive first, without measuring."),
    ] = False,
    trusted: Trusted = False,
    settings: Settings = None,
    cores: Cores = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Search for fast kernels of one model on one target, without a config.

    Measurements go to the store that all runs share; `tvmake compile` with the same model, target and precision uses the best
    ones. An interrupted run resumes.
    """
    import json
    import shlex

    from tvmake.artifact import stage_json
    from tvmake.artifact.tasks import DYNAMIC
    from tvmake.cli.configs import overlay
    from tvmake.cli.single import build_artifact, single_run, split_names
    from tvmake.config.reading.load import merge
    from tvmake.errors import UsageError
    from tvmake.plan.plan import Plan
    from tvmake.records.best import BestSet
    from tvmake.records.store import open_store

    chosen = {"tuning": {"kernels": split_names(kernels)}} if kernels else {}
    layer = merge(chosen, overlay(settings))
    run = single_run(
        model,
        target,
        precision,
        trials,
        shapes,
        device,
        layer,
        dims=dims,
        package_shapes=package_shapes,
        values=values,
        state=state,
        trusted=trusted,
    )
    if list_only:
        with build_artifact(run, "tasks.json", cores, quiet) as file:
            _print_tasks(file, as_json)
        return
    plan = Plan(run.check_config())
    if plan.context({"target": run.target_name}).device_name is None:
        raise UsageError(
            f"--target {target}",
            "kernels are measured on a device, and this machine cannot run this target",
            "name the device: --device ssh:HOST, adb:SERIAL, rpc:TRACKER:PORT/KEY, or one of the config here",
        )
    with build_artifact(run, "best.json", cores, quiet) as file:
        best = stage_json.load(BestSet, file)
    run.note_tuning()
    store = plan.context({"target": run.target_name}).tuning.store
    root = open_store(run.directory / store if store else None).root
    if as_json:
        summary = {"device_class": best.device_class, "store": str(root), **_totals(best)}
        typer.echo(json.dumps({**summary, "kernels": [_row(kernel) for kernel in best.kernels]}, indent=2))
        return
    _print(best)
    typer.echo(f"records: {root} ({best.device_class})")
    arguments = [
        model,
        *([] if target == NATIVE else ["-t", target]),
        *([] if precision == "float32" else ["--precision", precision]),
        *(["--trusted"] if trusted else []),
    ]
    network = {"--input-shape": shapes, "--input-value": values, "--dim": dims, "--shape": package_shapes}
    network["--state"] = state
    arguments += [word for option, texts in network.items() for text in texts or () for word in (option, text)]
    if any(kernel.reason == DYNAMIC for kernel in best.kernels):
        typer.echo(
            "to tune kernels with dynamic shapes, fix the sizes: --dim NAME=SIZE, or --input-shape INPUT=1,3,224,224"
        )
    if not any(kernel.latency_ms for kernel in best.kernels):
        return
    typer.echo(f"`tvmake compile {shlex.join(arguments)}` uses them")


def _row(kernel: BestKernel) -> dict[str, Any]:
    return {
        "kernel": kernel.name,
        "calls": kernel.calls,
        "trials": kernel.trials,
        "best_ms": kernel.latency_ms,
        "gflops": kernel.flops / kernel.latency_ms / 1e6 if kernel.latency_ms else None,
        "reason": kernel.reason,
        "workload": kernel.workload,
    }


def _totals(best: BestSet) -> dict[str, Any]:
    tuned = [kernel for kernel in best.kernels if kernel.latency_ms is not None]
    return {
        "trials": sum(kernel.trials for kernel in best.kernels),
        "tuned": len(tuned),
        "best_ms": sum((kernel.latency_ms or 0) * kernel.calls for kernel in tuned),
    }


def _print(best: BestSet) -> None:
    from tvmake.cli.device.tables import show
    from tvmake.process.output import counted
    from tvmake.report.quantities import rate

    rows = [
        _row(kernel) for kernel in sorted(best.kernels, key=lambda kernel: -(kernel.latency_ms or 0) * kernel.calls)
    ]
    for row in rows:
        row["best_ms"] = "" if row["best_ms"] is None else f"{row['best_ms']:.4g}"
        row["gflops"] = "" if not row["gflops"] else rate(row["gflops"])
        row["not_tuned"] = row["reason"] or ""
    show(rows, as_json=False, columns=("kernel", "calls", "trials", "best_ms", "gflops", "not_tuned"))
    totals = _totals(best)
    typer.echo(
        f"\n{counted(totals['tuned'], 'kernel')} of {len(best.kernels)} tuned, {counted(totals['trials'], 'trial')}; "
        f"the tuned ones take {totals['best_ms']:.4g} ms per run"
    )


def _print_tasks(file: Path, as_json: bool) -> None:
    from tvmake.artifact import stage_json
    from tvmake.artifact.tasks import TaskList
    from tvmake.cli.device.tables import show

    tasks = sorted(stage_json.load(TaskList, file).tasks, key=lambda task: -task.flops * task.calls)
    rows = [
        {
            "kernel": task.names[0],
            "calls": task.calls,
            "mflop": float(f"{task.flops / 1e6:.4g}"),
            "not_tuned": task.trivial or "",
            "workload": task.workload if as_json else task.workload[:12],
        }
        for task in tasks
    ]
    show(rows, as_json=as_json, columns=("kernel", "calls", "mflop", "not_tuned", "workload"))
