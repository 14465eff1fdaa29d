"""The results page's table of packages with several functions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvmake.report import quantities
from tvmake.report.packages import PackageRow

MOST_NAMES = 4
"""Names of states in a line; a decoder has two for each layer."""


@dataclass(frozen=True)
class Part:
    """A function, with the link to its variant; none without a variant of its own on the page."""

    name: str
    anchor: str | None


@dataclass(frozen=True)
class PackageEntry:
    """One package, as the template shows it."""

    row: PackageRow
    functions: list[Part]
    size: str
    weights: str
    distinct: str
    shared: list[str]
    """Shared states, a line for each group of functions."""


def package_entries(rows: Sequence[PackageRow], anchors: Mapping[str, str]) -> list[PackageEntry]:
    """The packages of a summary.

    Args:
        anchors: of the variants on the page.
    """
    return [
        PackageEntry(
            row=row,
            functions=[Part(row.function_name(name), anchors.get(name)) for name in row.functions],
            size=quantities.size(row.package_bytes),
            weights=quantities.size(row.params_bytes),
            distinct=quantities.size(row.distinct_bytes),
            shared=_shared(row.shared_states),
        )
        for row in rows
    ]


def _shared(states: Mapping[str, Sequence[str]]) -> list[str]:
    """``h, c by decode and prefill``."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for state, functions in states.items():
        groups.setdefault(tuple(functions), []).append(state)
    lines = []
    for functions, names in groups.items():
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        lines.append(f"{', '.join(names[:MOST_NAMES])}{more} by {' and '.join(functions)}")
    return lines
