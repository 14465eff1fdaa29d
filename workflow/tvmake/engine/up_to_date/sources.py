"""The files that jobs read and no rule makes: models, datasets, modules of the user.

Their content decides, whatever their times say. Snakemake looks at content only where an input is newer than what was made of it,
so a rule names the digest of its sources in its ``params``, and marks the sources themselves as ``ancient``: Snakemake
leaves their times alone, and runs a job again whose parameters have changed.
"""

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from tvmake.storage.directories import SNAKEMAKE_STATE
from tvmake.storage.files import canonical_json, digest_bytes
from tvmake.storage.notes.known_digests import KnownDigests
from tvmake.storage.notes.listings import keep_listing

STATE = SNAKEMAKE_STATE
DIGESTS = STATE / "tvmake-digests.json"
METADATA = STATE / "metadata"
"""What Snakemake keeps of every result, its parameters among them."""

Mark = Callable[[str], Any]


def has_records() -> bool:
    """Whether Snakemake knows of any result what it was made of."""
    return METADATA.is_dir() and any(METADATA.iterdir())


def known_digests() -> KnownDigests:
    """The digests that are known in this process of files in the working directory."""
    return _known(DIGESTS.absolute())


@cache
def _known(file: Path) -> KnownDigests:
    return KnownDigests(file)


class Sources:
    """Sources of one workflow, as its rules name them.

    Args:
        ancient: Snakemake's mark for files whose times do not count; None where a rule of another workflow may make them, which
            only their times tell.
    """

    def __init__(self, ancient: Mark | None):
        # Without Snakemake's records nothing is known of what results were made of, so that times have to decide.
        self._mark: Mark = ancient if ancient is not None and has_records() else str
        self._digests = known_digests()
        self._listings: dict[str, dict[str, str]] = {}

    def files(self, names: Iterable[str]) -> list[Any]:
        """Sources as a rule's input."""
        return [self._mark(name) for name in names]

    def digest(self, names: Iterable[str]) -> str:
        """What a rule's parameters say of its sources: a digest of their names and contents.

        A source that is not there is left out; Snakemake says that it is missing.
        """
        found = {name: self._digests.digest(Path(name)) for name in names if Path(name).exists()}
        digest = digest_bytes(canonical_json([[name, content] for name, content in found.items()]).encode())
        if found:
            self._listings[digest] = found
        return digest

    def keep(self) -> None:
        """Keep what was read for the next run."""
        self._digests.save()
        for digest, listing in self._listings.items():
            keep_listing(digest, listing)
