"""Attest: say beside a package where it came from and what it consists of.

A stage of its own because it names the model's file: a comment in that changes what is said here, and no package.
"""

from pathlib import Path

from tvmake.artifact import stage_json
from tvmake.artifact.files import digest_file, write_text
from tvmake.artifact.package import inspect
from tvmake.artifact.source import SourceRecord
from tvmake.provenance.components import component_list
from tvmake.provenance.library import library_of
from tvmake.provenance.origin import origin, written


def attest(package: Path, source: Path, provenance: Path, components: Path) -> None:
    """Write a package's provenance (in-toto) and component list (CycloneDX); the same files give the same bytes.

    Args:
        source: what the import stage read (a ``SourceRecord``).

    Raises:
        InputError: the package is damaged, or not one that tvmake builds.
    """
    manifest = inspect(package)
    digest = digest_file(package)
    record = stage_json.load(SourceRecord, source)
    write_text(provenance, written(origin(manifest, digest, record, str(package))))
    write_text(components, component_list(manifest, digest, library_of(package), record))
