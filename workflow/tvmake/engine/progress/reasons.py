"""Describe why Snakemake would run a job, with the key, file or version that changed."""

from collections.abc import Sequence

from tvmake.engine.up_to_date.changes import Change

MISSING = "Missing output files"
AFTER_OTHERS = "Input files updated by another job"
FORCED = "Forced execution"

REASONS = {
    MISSING: "not made yet",
    AFTER_OTHERS: "its inputs may change",
    "Updated input files": "its inputs changed",
    "Params have changed since last execution": "its options, code or library versions changed",
    "Code has changed since last execution": "its rule changed",
    "Set of input files has changed since last execution": "its set of inputs changed",
    FORCED: "forced",
}
"""Snakemake's reasons."""

SHOWN = 3
"""Maximum number of changes of a job that are listed."""


def kinds_of(reason: str) -> list[str]:
    """Snakemake's reasons for a job, without their lists."""
    parts = (part.partition(":")[0].strip() for part in reason.replace("\n", " ").split(";"))
    return list(dict.fromkeys(part for part in parts if part))


def why(kinds: Sequence[str], changes: Sequence[Change]) -> str:
    """A job's reasons in one line.

    A missing result needs no other reason: its missing inputs are implied.

    Args:
        kinds: Snakemake's reasons.
        changes: known changes; they replace reasons without details.
    """
    if MISSING in kinds and not any(change.before for change in changes):
        return REASONS[MISSING]
    details = [str(change) for change in changes[:SHOWN]]
    details += [f"and {len(changes) - SHOWN} more"] if len(changes) > SHOWN else []
    # Altered results are rebuilt by force.
    is_forced = FORCED in kinds and not any(change.kind == "altered" for change in changes)
    general = [kind for kind in kinds if (is_forced if kind == FORCED else not changes)]
    return ", ".join([*details, *(REASONS.get(kind, kind.lower()) for kind in general)])


def is_uncertain(kinds: Sequence[str]) -> bool:
    """Whether a job runs only if the results of jobs before it change."""
    return kinds == [AFTER_OTHERS]
