"""The files that jobs read and no rule makes: models, datasets, modules of the user.

Their content decides, whatever their times say, and their times are left as they are: a rule names the digest of its sources in its
``params``, and the sources as its input only if they may have to be made or do not exist.
"""

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tvmake.storage.files import canonical_json, digest_bytes
from tvmake.storage.notes.known_digests import DIGESTS, KnownDigests


def known_digests() -> KnownDigests:
    """The digests that are known in this process of files in the working directory."""
    return _known(DIGESTS.absolute())


@cache
def _known(file: Path) -> KnownDigests:
    return KnownDigests(file)


class Sources:
    """Sources of one workflow, as its rules name them.

    Args:
        may_be_made: whether a rule of another workflow may make them, which Snakemake has to run first.
    """

    def __init__(self, may_be_made: bool):
        self._may_be_made = may_be_made

    def files(self, names: Iterable[str]) -> list[str]:
        """The sources that a rule names as its input: those that another rule may make, and those that do not exist.

        Snakemake reports a missing input before it runs anything.
        """
        return [name for name in names if self._may_be_made or not Path(name).exists()]

    def digest(self, names: Iterable[str]) -> str:
        """What a rule's parameters say of its sources: a digest of their names and contents.

        A source that is not there is left out; the command says that it is missing.
        """
        found = {name: known_digests().digest(Path(name)) for name in names if Path(name).exists()}
        return digest_bytes(canonical_json([[name, content] for name, content in found.items()]).encode())
