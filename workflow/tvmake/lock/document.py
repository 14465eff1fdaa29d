"""run.lock as a whole."""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from tvmake.errors import InputError
from tvmake.quantize.precision import LayerAssignment
from tvmake.records.frozen import SCHEMA_VERSION, LockedRecords, parse, read_bytes
from tvmake.records.record import Digest
from tvmake.storage.documents import FailsFast
from tvmake.storage.files import write_text
from tvmake.transform.options import Layout

LOCK = Path("run.lock")
"""Its usual name."""


class _Part(FailsFast, BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Revision(_Part):
    """A git checkout's state."""

    commit: str
    modified: bool
    """Whether tracked files differ from the commit."""


class Tool(_Part):
    """The tvmake of a run."""

    version: str
    revision: Revision | None = None
    """Of the checkout that it ran from; None for an installed one."""
    code: dict[str, Digest]
    """Digest of the modules that each stage can reach."""


class Origins(_Part):
    """Everything that determines a run, as far as it is known before the run."""

    tvmake: Tool
    project: Revision | None = None
    """The checkout of the run."""
    config: dict[str, Any]
    """The config with its defaults, without paths that belong to one machine."""
    inputs: dict[str, Digest | None]
    """sha256 of every file that the config names, by its name there; None for a missing one. A dataset of several files
    has one digest."""
    versions: dict[str, str]
    """Python and the libraries whose version can change a byte."""
    compilers: dict[str, str]
    """The linkers of mod.so, by target."""
    cpus: dict[str, str]
    """This machine's CPU, for targets that are compiled for it (``mcpu: native``)."""


class LockedArtifact(_Part):
    """A file that is byte-identical for the same origins."""

    stage: str
    """The stage that writes it."""
    path: str
    """Below the results directory."""
    sha256: Digest
    parts: dict[str, Digest] | None = None
    """Digests of an archive's members or of a JSON object's values, to locate differences."""


class Lock(_Part):
    """A run."""

    schema_version: Literal[1] = SCHEMA_VERSION
    written_by: str
    """The version of tvmake, where every later one finds it."""
    origins: Origins
    records: dict[str, LockedRecords]
    """The tuning records of each tuned variant (``model/precision/target``)."""
    layouts: dict[str, Layout]
    """The data layout of each variant that chose one by measuring."""
    assignments: dict[str, LayerAssignment] = {}
    """The precision of each layer, of each variant that chose them by measuring."""
    artifacts: list[LockedArtifact]
    """In the order of the pipeline."""

    @property
    def packages(self) -> list[LockedArtifact]:
        """The packages of variants, without those that are joined from them."""
        return [entry for entry in self.artifacts if entry.path.endswith("/package.tar") and entry.stage != "join"]


def read_lock(path: Path) -> Lock:
    """Read a lock.

    Raises:
        InputError: the file is missing, damaged or of another schema version.
    """
    return parse(Lock, read_bytes(path), str(path))


def is_lock(path: Path) -> bool:
    """Whether a file is a lock of this version."""
    try:
        read_lock(path)
    except InputError:
        return False
    return True


def write_lock(lock: Lock, path: Path) -> None:
    """Write a lock: one value per line in a fixed order, so that versions can be compared line by line."""
    write_text(path, lock.model_dump_json(indent=1, exclude_none=True) + "\n")
