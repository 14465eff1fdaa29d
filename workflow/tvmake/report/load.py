"""Find and read a run's summary, and the files beside its packages."""

import re
from pathlib import Path

from pydantic import ValidationError

from tvmake.artifact import stage_json
from tvmake.artifact.paths import HISTORY
from tvmake.artifact.source import SourceRecord
from tvmake.errors import InputError
from tvmake.provenance.origin import origin_file, read_origin
from tvmake.report.rows import Summary
from tvmake.report.summary_check import check_unaltered
from tvmake.storage.notes.state_file import state_in
from tvmake.storage.plain_files import read_plain

SUMMARY = "summary.json"
"""The summary's name in the results directory."""

HISTORY_NAME = re.compile(r"\d{4}-\d\d-\d\dT\d{6}(\.\d+)?(\+\d{4})?")
"""The name of a stored run: its end time without colons."""

HISTORY_FORM = 1
"""The directory of stored runs (:mod:`tvmake.report.history`), with sha256."""

MOST_BYTES = 32 << 20
"""Maximum size of a summary, which may come from elsewhere: some thousand bytes per variant."""


def load_summary(path: Path) -> Summary:
    """Read a summary.json, a results directory's, or one of its history.

    Raises:
        InputError: it is missing, damaged, of another version, or altered.
    """
    path = path / SUMMARY if path.is_dir() else path
    if not path.exists() and not path.is_symlink():
        raise InputError(
            str(path), "no such summary", "`tvmake make` writes one; name another results directory or file"
        )
    if path.absolute().parent.name == HISTORY and HISTORY_NAME.fullmatch(path.stem):
        return _load_kept(path)
    remedy = "name a results directory, or the summary.json in it; `tvmake make` rewrites it"
    content = read_plain(path, MOST_BYTES, "summary of a run", remedy)
    if not content.lstrip().startswith(b"{"):
        raise InputError(str(path), "is not a summary of a run" if content else "is empty", remedy)
    check_unaltered(path)
    try:
        return stage_json.load(Summary, path, MOST_BYTES)
    except InputError as error:
        raise InputError(error.where, error.problem, remedy) from None


def _load_kept(path: Path) -> Summary:
    content = state_in(read_plain(path, MOST_BYTES, "earlier run").decode(errors="replace"), HISTORY_FORM)
    try:
        return Summary.model_validate(content)
    except ValidationError:
        raise InputError(
            str(path), "not as the report left it, or of another version of tvmake", "delete it, or bring back a copy"
        ) from None


def select_rows(summary: Summary, named: str) -> Summary | None:
    """The part of a summary for one variant (``model/precision/target``), or for one model; None without such rows.

    Args:
        named: the variant or model.
    """
    rows = [row for row in summary.rows if named.strip("/") in (row.variant, row.model)]
    return summary.model_copy(update={"rows": rows, "warnings": [], "cache": None}) if rows else None


def load_sources(path: Path, summary: Summary) -> dict[str, SourceRecord]:
    """The origins of a run's models, as far as provenance files exist beside their packages.

    Raises:
        InputError: it is damaged.
    """
    results = path if path.is_dir() else path.parent
    sources: dict[str, SourceRecord] = {}
    for row in summary.rows:
        if row.package is None or row.model in sources:
            continue
        file = origin_file(results / row.package)
        if file.is_file():
            _, sources[row.model] = read_origin(file)
    return sources
