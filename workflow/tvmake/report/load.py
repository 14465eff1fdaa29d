"""Find and read a run's summary, and what lies beside the packages of its rows."""

from pathlib import Path

from tvmake.artifact import stage_json
from tvmake.artifact.source import SourceRecord
from tvmake.errors import InputError
from tvmake.plan import layout
from tvmake.provenance.origin import read_origin
from tvmake.report.rows import Summary


def load_summary(place: Path) -> Summary:
    """Read a summary.json, or the one in a results directory.

    Raises:
        InputError: there is none, or it is damaged or of another version.
    """
    path = Path(layout.path("summary", str(place))) if place.is_dir() else place
    if not path.is_file():
        raise InputError(
            str(path), "no such summary", "`tvmake make` writes one; name another results directory or file"
        )
    return stage_json.load(Summary, path)


def load_sources(place: Path, summary: Summary) -> dict[str, SourceRecord]:
    """Where the models of a run came from, as far as provenance lies beside their packages.

    Raises:
        InputError: it is damaged.
    """
    results = str(place if place.is_dir() else place.parent)
    found: dict[str, SourceRecord] = {}
    for row in summary.rows:
        names = {"model": row.model, "precision": row.precision, "target": row.target}
        file = Path(layout.path("provenance", results, **names))
        if row.model not in found and file.is_file():
            _, found[row.model] = read_origin(file)
    return found
