"""The report of a failed run: the finished variants with their figures, and a row with the reason for each other one."""

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from tvmake.config.requests.reporting import ReportRequest, VariantRow
from tvmake.engine.progress.job_log import ending, failure_lines, written_since
from tvmake.engine.up_to_date.sources import known_digests
from tvmake.plan.plan import Job, Plan, Variant
from tvmake.report.results import read_results
from tvmake.report.rows import Summary, SummaryRow
from tvmake.stages.results.gathering import path_in
from tvmake.stages.results.report import write_report
from tvmake.stages.results.select import write_selection
from tvmake.storage.notes.job_records import forget, has_job_records, record_job, record_of

AGAIN = "`tvmake make` rebuilds it"


def report_failures(plan: Plan, began: float) -> Summary:
    """Write the report of the variants that are finished.

    The report does not count as made: the next run rebuilds it when every variant is finished. Of its files only the summary
    gets a record, so that readers see whether it was altered.

    Args:
        plan: the plan of the failed run.
        began: start of the run, in seconds since 1970.

    Raises:
        InputError: a variant's file is damaged.
        MachineError: the report cannot be written.
    """
    jobs = {job.stage: job for job in plan.run_jobs()}
    request = ReportRequest.model_validate_json(jobs["report"].options)
    inputs = set(jobs["report"].inputs)
    known = {
        (row.model, row.precision, row.target): variant
        for variant, row in zip(plan.variants, request.variants, strict=True)
    }
    unmade, finished = [], []
    read: list[str] = []
    for variant, row in zip(plan.variants, request.variants, strict=True):
        if _is_variant_made(plan, variant):
            finished.append(row)
            read += plan.outputs_of(variant).keys() & inputs
        else:
            unmade.append(_row(row, plan.jobs(variant), began, _failed_layout_owner(plan, row, known, began)))
    for job in jobs.values():
        forget(job.outputs)
    request = request.model_copy(update={"variants": finished})
    selection, best = map(Path, jobs["select"].outputs)
    results = read_results(request, path_in(request.results))
    write_selection(request, unmade, selection, best, results)
    summary, table, page = map(Path, jobs["report"].outputs)
    with record_job(map(Path, sorted(read)), [summary]):
        return write_report(request, selection, unmade, summary, table, page, results)


def discard_unfinished_report(plan: Plan) -> None:
    """Remove the report of a failed run, so that it is rebuilt."""
    for outputs in (job.outputs for job in plan.run_jobs()):
        if has_job_records() and record_of(outputs) is None:
            forget(outputs)
            for path in map(Path, outputs):
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)


def _is_variant_made(plan: Plan, variant: Variant) -> bool:
    """Whether all files that a variant promises and the report reads exist unaltered, and no job has failed since."""
    read = plan.outputs_of(variant).keys() & {path for job in plan.run_jobs() for path in job.inputs}
    jobs = plan.jobs(variant)
    joined = {path for job in jobs if "group" in job.wildcards for path in job.outputs}
    return all(map(os.path.exists, {*plan.goals_of(variant), *read} - joined)) and all(
        record_of(job.outputs) and not _altered_outputs(job) and not _rebuilt_inputs(job)
        for job in jobs
        if "group" not in job.wildcards  # another function may have failed
    )


def _is_made(job: Job) -> bool:
    is_there = record_of(job.outputs) is not None and all(map(os.path.exists, job.outputs))
    return is_there and not _altered_outputs(job) and not _rebuilt_inputs(job)


def _altered_outputs(job: Job) -> list[str]:
    """Results of a job that exist and were altered since."""
    record = record_of(job.outputs)
    return _changed_files(record.outputs) if record else []


def _rebuilt_inputs(job: Job) -> list[str]:
    """Inputs of a job that were rebuilt since it ran, for example by an interrupted run."""
    record = record_of(job.outputs)
    return (
        _changed_files({name: record.inputs[name] for name in record.inputs if name not in job.sources})
        if record
        else []
    )


def _changed_files(recorded: Mapping[str, str]) -> list[str]:
    digests = known_digests()
    return [name for name, digest in recorded.items() if Path(name).exists() and not digests.has(name, digest)]


def _failed_layout_owner(
    plan: Plan, row: VariantRow, variants: Mapping[tuple[str, str, str], Variant], began: float
) -> str:
    """The network whose layout of weights a variant follows, if it failed in this run; empty if not, or for its own layout."""
    first = next(iter(plan.config.functions(plan.config.group_of(row.model)).values()), "")
    owner = variants.get((first, row.precision, row.target))
    if owner is None or first == row.model:
        return ""
    return first if _failed_job([job for job in plan.jobs(owner) if not _is_made(job)], began) else ""


def _failed_job(jobs: Iterable[Job], began: float) -> Job | None:
    """The first of these jobs that failed in this run."""
    failures = ("failed", "cut short")
    return next(
        (job for job in jobs if written_since(Path(job.log), began) and ending(Path(job.log)) in failures), None
    )


def _row(variant: VariantRow, jobs: Iterable[Job], began: float, layout_owner: str) -> SummaryRow:
    """The row of a variant that was not made, with its first job that failed in this run, or its first missing job.

    Args:
        layout_owner: the network that failed in this run, and whose layout of weights this one follows.
    """
    missing = [job for job in jobs if not _is_made(job)]
    failed = _failed_job(missing, began)
    named = variant.model_dump(include={"model", "precision", "target", "device"})
    if failed is None:
        if missing[0].stage == "build" and layout_owner:
            why = f"it follows the layout of weights of {layout_owner}, which failed"
            change = f"correct {layout_owner}, or name another function first in `functions`"
            return SummaryRow(**named, verdict="not made", stage="build", cause=why, remedy=change)
        altered = next(iter(_altered_outputs(missing[0])), None)
        cause = altered and f"{altered} was altered"
        if not altered and (remade := next(iter(_rebuilt_inputs(missing[0])), None)):
            cause = f"{remade} was rebuilt since"
        elif not altered and (absent := next((name for name in missing[0].inputs if not Path(name).exists()), None)):
            cause = f"it needs {absent}, which is not made"
        return SummaryRow(**named, verdict="not made", stage=missing[0].stage, cause=cause, remedy=cause and AGAIN)
    cause, *remedy = failure_lines(Path(failed.log))
    return SummaryRow(
        **named,
        verdict="failed",
        stage=failed.stage,
        cause=cause.removeprefix("error: "),
        remedy=" ".join(line.strip() for line in remedy if line.startswith("  ")) or None,
        log=failed.log,
    )
