"""Check that a summary is unaltered and agrees with the current files."""

from pathlib import Path

from tvmake.errors import InputError
from tvmake.storage.notes.job_records import JobRecord, has_job_records, record_of
from tvmake.storage.notes.known_digests import has_digest


def check_unaltered(summary: Path) -> None:
    """Refuse a summary that was altered after the report wrote it. Copies elsewhere cannot be checked.

    Args:
        summary: a summary.json.

    Raises:
        InputError: it was altered.
    """
    if (recorded := _record_of_summary(summary)) and not any(
        has_digest(summary, digest)
        for name, digest in recorded[1].outputs.items()
        if recorded[0] / name == summary.resolve()
    ):
        raise InputError(
            str(summary), "altered: its content differs from what the report wrote", "`tvmake make` rebuilds it"
        )


def changed_inputs(summary: Path) -> list[str]:
    """The files that a summary was computed from and that are missing or changed now, for example after a failed later run.

    None for a copy of a summary elsewhere, whose files are unknown.

    Args:
        summary: a summary.json.
    """
    recorded = _record_of_summary(summary)
    return _changed_names(*recorded) if recorded else []


def describe_changes(results: Path) -> str | None:
    """The message for figures that do not match the current files; None if they do.

    Args:
        results: a results directory, or a summary.json.
    """
    changed = changed_inputs(results / "summary.json" if results.is_dir() else results)
    if not changed:
        return None
    named = f"{len(changed)} files, {changed[0]} among them," if len(changed) > 1 else changed[0]
    return f"these figures belong to an earlier run: {named} changed or were deleted since; `tvmake make` rebuilds them"


def _record_of_summary(summary: Path) -> tuple[Path, JobRecord] | None:
    """The project of a summary, and the record of the job that wrote it; None without a record."""
    path = summary.resolve()
    project = next((parent for parent in path.parents if has_job_records(parent)), None)
    record = _record(project, path) if project else None
    return (project, record) if project and record else None


def _record(project: Path, summary: Path) -> JobRecord | None:
    names = (str(summary.relative_to(project)), str(summary))
    return next((record for name in names if (record := record_of([name], project))), None)


def _changed_names(project: Path, record: JobRecord) -> list[str]:
    return [
        name
        for name, digest in record.inputs.items()
        if not record_of([name], project) or not has_digest(project / name, digest)
    ]
