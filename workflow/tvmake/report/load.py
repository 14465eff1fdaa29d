"""Find and read a run's summary."""

from pathlib import Path

from tvmake.artifact import stage_json
from tvmake.errors import InputError
from tvmake.plan import layout
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
