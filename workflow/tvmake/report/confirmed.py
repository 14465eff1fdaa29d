"""Whether a summary's figures are those of the files that are there now."""

from pathlib import Path

from tvmake.storage.job_records import JobRecord, has_job_records, record_of
from tvmake.storage.known_digests import has_digest


def unconfirmed(summary: Path) -> list[str]:
    """The files that a summary was made of and that are gone or others now, as when a later run was ended or failed.

    None for a summary that was copied elsewhere: nothing is known of its files there.

    Args:
        summary: a summary.json.
    """
    for project in summary.resolve().parents:
        if has_job_records(project):
            record = _record(project, summary.resolve())
            return _changed(project, record) if record else []
    return []


def _record(project: Path, summary: Path) -> JobRecord | None:
    names = (str(summary.relative_to(project)), str(summary))
    return next((record for name in names if (record := record_of([name], project))), None)


def _changed(project: Path, record: JobRecord) -> list[str]:
    return [
        name
        for name, digest in record.inputs.items()
        if not record_of([name], project) or not has_digest(project / name, digest)
    ]
