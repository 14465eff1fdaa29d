"""Why Snakemake would run a job, in the words of the pipeline, with the key, file or version that differs."""

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
    "Set of input files has changed since last execution": "it has other inputs now",
    FORCED: "forced",
}
"""Snakemake's reasons."""

SHOWN = 3
"""So many changes of a job are named."""


def kinds_of(reason: str) -> list[str]:
    """Snakemake's reasons for a job, without their lists."""
    parts = (part.partition(":")[0].strip() for part in reason.replace("\n", " ").split(";"))
    return list(dict.fromkeys(part for part in parts if part))


def why(kinds: Sequence[str], changes: Sequence[Change]) -> str:
    """A job's reasons in one line.

    What is not made yet has no other reason: that its inputs are not there either goes without saying.

    Args:
        kinds: Snakemake's reasons.
        changes: what differs, as far as that is known; instead of the reasons that say only that something does.
    """
    if MISSING in kinds and not any(change.before for change in changes):
        return REASONS[MISSING]
    found = [str(change) for change in changes[:SHOWN]]
    found += [f"and {len(changes) - SHOWN} more"] if len(changes) > SHOWN else []
    # What was altered is made again by force.
    is_forced = FORCED in kinds and not any(change.kind == "altered" for change in changes)
    general = [kind for kind in kinds if (is_forced if kind == FORCED else not changes)]
    return ", ".join([*found, *(REASONS.get(kind, kind.lower()) for kind in general)])


def is_uncertain(kinds: Sequence[str]) -> bool:
    """Whether a job runs only if those before it make something else than there is."""
    return kinds == [AFTER_OTHERS]
