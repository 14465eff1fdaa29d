"""The files that jobs read and no rule makes: models, datasets, the user's modules.

Only their content counts. Their times are ignored and never set: a rule has the digest of its sources in its ``params``. Sources are
the rule's input only if another rule may make them or they do not exist.
"""

import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tvmake.storage.files import canonical_json, digest_bytes
from tvmake.storage.notes.known_digests import DIGESTS, KnownDigests


def known_digests() -> KnownDigests:
    """The known digests of files in the working directory."""
    return _known(os.getcwd())  # noqa: PTH109  # of tens of thousands


@cache
def _known(directory: str) -> KnownDigests:
    return KnownDigests(Path(directory) / DIGESTS)


class Sources:
    """The sources of a workflow, for its rules.

    Args:
        may_be_made: whether a rule of another workflow may make them; Snakemake then runs it first.
    """

    def __init__(self, may_be_made: bool):
        self._may_be_made = may_be_made

    def files(self, names: Iterable[str]) -> list[str]:
        """The sources that a rule names as its input: those that another rule may make, and those that do not exist.

        Snakemake reports a missing input before it runs anything.
        """
        return [name for name in names if self._may_be_made or not Path(name).exists()]

    def digest(self, names: Iterable[str]) -> str:
        """A digest of the names and contents of sources, for a rule's parameters.

        A missing source is omitted; the command reports it.
        """
        digests = {name: known_digests().digest(Path(name)) for name in names if Path(name).exists()}
        return digest_bytes(canonical_json([[name, content] for name, content in digests.items()]).encode())
