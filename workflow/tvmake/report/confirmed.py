"""Whether a summary is as it was made, and its figures are those of the files that are there now."""

from pathlib import Path

from tvmake.errors import InputError
from tvmake.storage.notes.job_records import JobRecord, has_job_records, record_of
from tvmake.storage.notes.known_digests import has_digest


def check_as_made(summary: Path) -> None:
    """Refuse a summary that is not as the report left it. Nothing is known of one that was copied elsewhere.

    Args:
        summary: a summary.json.

    Raises:
        InputError: it was altered since.
    """
    if (found := _found(summary)) and not any(
        has_digest(summary, digest) for name, digest in found[1].outputs.items() if found[0] / name == summary.resolve()
    ):
        raise InputError(
            str(summary), "not as it was made: the report left another content", "`tvmake make` makes it anew"
        )


def unconfirmed(summary: Path) -> list[str]:
    """The files that a summary was made of and that are gone or others now, as when a later run was ended or failed.

    None for a summary that was copied elsewhere: nothing is known of its files there.

    Args:
        summary: a summary.json.
    """
    found = _found(summary)
    return _changed(*found) if found else []


def note_of_changes(results: Path) -> str | None:
    """What to say where the figures of a run are no longer those of the files that are there; None where they are.

    Args:
        results: a results directory, or a summary.json.
    """
    changed = unconfirmed(results / "summary.json" if results.is_dir() else results)
    if not changed:
        return None
    named = f"{len(changed)} files, {changed[0]} among them," if len(changed) > 1 else changed[0]
    return f"these figures are of an earlier run: {named} changed or went away since; `tvmake make` makes them anew"


def _found(summary: Path) -> tuple[Path, JobRecord] | None:
    """The project that a summary lies in, and the record of the job that made it; None where there is none."""
    place = summary.resolve()
    project = next((parent for parent in place.parents if has_job_records(parent)), None)
    record = _record(project, place) if project else None
    return (project, record) if project and record else None


def _record(project: Path, summary: Path) -> JobRecord | None:
    names = (str(summary.relative_to(project)), str(summary))
    return next((record for name in names if (record := record_of([name], project))), None)


def _changed(project: Path, record: JobRecord) -> list[str]:
    return [
        name
        for name, digest in record.inputs.items()
        if not record_of([name], project) or not has_digest(project / name, digest)
    ]
