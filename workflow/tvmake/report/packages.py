"""Rows of packages with several functions, beside those of the functions."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tvmake.artifact import stage_json
from tvmake.artifact.joined import Joined
from tvmake.config.requests.reporting import PackageEntry, ReportRequest
from tvmake.report.quantities import size
from tvmake.report.results import PathOf, VariantResults
from tvmake.storage.documents import FailsFast


class PackageRow(FailsFast, BaseModel):
    """A package with several functions; sizes in bytes. Figures are None without a package."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    model: str
    precision: str
    target: str
    functions: list[str]
    """The variants that are its functions, in the order of the config."""
    best: bool = False
    """Whether it is the best of its model on its device."""
    package: str | None = None
    """Path inside the results directory."""
    package_sha256: str | None = None
    package_bytes: int | None = None
    params_bytes: int | None = None
    """Size of mod.params, which all functions use."""
    distinct_bytes: int | None = None
    """Size of the distinct weights of the functions' networks, before builds pack them."""
    notes: list[str] = []
    """States that functions do not share, though they have the same name."""
    shared_states: dict[str, list[str]] = {}
    """States that several functions have, each with these functions."""
    cause: str | None = None
    """Why there is no package."""

    def function_name(self, variant: str) -> str:
        """The name of one of ``functions`` in the package."""
        return variant.partition("/")[0].removeprefix(f"{self.model}.")

    @property
    def variant(self) -> str:
        """``model/precision/target``."""
        return f"{self.model}/{self.precision}/{self.target}"


def package_rows(
    request: ReportRequest, results: Sequence[VariantResults], causes: Mapping[str, str], path_of: PathOf
) -> list[PackageRow]:
    """The rows of a request's packages with several functions.

    Args:
        results: the results of the functions that were made.
        causes: why the other variants were not made.

    Raises:
        InputError: a record of a package is damaged.
    """
    made = {f"{row.variant.model}/{row.variant.precision}/{row.variant.target}": row for row in results}
    return [_row(request, entry, made, causes, path_of) for entry in request.packages]


def _row(
    request: ReportRequest,
    entry: PackageEntry,
    made: Mapping[str, VariantResults],
    causes: Mapping[str, str],
    path_of: PathOf,
) -> PackageRow:
    functions = [f"{function}/{entry.precision}/{entry.target}" for function in entry.functions]
    row = PackageRow(model=entry.model, precision=entry.precision, target=entry.target, functions=functions)
    if missing := next((name for name in functions if name not in made), None):
        return row.model_copy(update={"cause": f"{missing}: {causes.get(missing, 'it was not made')}"})
    package, record = Path(path_of("joined/package.tar", entry)), Path(path_of("joined.json", entry))
    digests = [made[name].package_sha256 for name in functions]
    joined = stage_json.load(Joined, record) if package.is_file() and record.is_file() else None
    if joined is None or [*joined.functions.values()] != digests:
        return row.model_copy(update={"cause": f"it was not joined; `tvmake logs {row.variant}` prints why"})
    figures = {name: getattr(joined, name) for name in ("package_sha256", "package_bytes", "params_bytes")}
    return row.model_copy(
        update={
            **figures,
            "package": package.relative_to(request.results).as_posix(),
            "notes": joined.notes,
            "shared_states": joined.shared_states,
            "distinct_bytes": joined.distinct_bytes,
        }
    )


def package_line(row: PackageRow) -> str:
    """A package in one line."""
    names = ", ".join(map(row.function_name, row.functions))
    if row.params_bytes is None:
        return f"no package with {names}: {row.cause}"
    share = f", {row.params_bytes / row.distinct_bytes:.2f} × the distinct ones" if row.distinct_bytes else ""
    best = ", best" if row.best else ""
    notes = "".join(f"; {note}" for note in row.notes)
    return f"package with {names}: {size(row.package_bytes)}, {size(row.params_bytes)} of weights{share}{best}{notes}"
