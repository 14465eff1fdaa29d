"""What the digests that jobs are given stand for: modules and library versions, sources and their contents.

A rule's parameters hold one digest for all of a stage's code, and one for its sources. The listing behind each is kept under its
digest, so that a later run can name the one module, version or file that differs.
"""

from collections.abc import Mapping
from pathlib import Path

from tvmake.errors import MachineError
from tvmake.storage.directories import SNAKEMAKE_STATE
from tvmake.storage.notes.state_file import read_state, write_state

LISTINGS = SNAKEMAKE_STATE / "tvmake-listings"
FORM = 1
"""Of the listings; another one is not read."""

MOST_ENTRIES = 20_000
"""A listing with more, a big dataset's, is not kept."""


def keep_listing(digest: str, listing: Mapping[str, str]) -> None:
    """Keep what a digest stands for; a directory that cannot be written only costs a less telling message.

    Args:
        digest: of the listing.
        listing: name of each part, and its digest or version.
    """
    if len(listing) > MOST_ENTRIES or is_kept(digest):
        return
    try:
        write_state(_file(digest), FORM, dict(listing), aside=SNAKEMAKE_STATE)
    except (MachineError, OSError):
        return


def is_kept(digest: str) -> bool:
    """Whether there is a listing of a digest."""
    return _file(digest).exists()


def listing_of(digest: str) -> dict[str, str] | None:
    """What a digest stands for; None where that was not kept, or is damaged."""
    found = read_state(_file(digest), FORM)
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else None


def _file(digest: str) -> Path:
    return LISTINGS / f"{digest}.json"
