"""Packages that somebody changed and made consistent again, and stored under the digest that they have then."""

from pathlib import Path
from typing import Any

from tvmake import __version__
from tvmake.artifact.manifest import FileEntry
from tvmake.artifact.package import LIBRARY, MANIFEST, load_manifest
from tvmake.provenance.statement import RECORDS, statement
from tvmake.storage.files import digest_file
from tvmake.storage.tar import digest_as_tar


def vouch(directory: Path, **changes: Any) -> None:
    """Give an unpacked package a manifest and a statement that fit its library."""
    manifest = load_manifest(directory / MANIFEST, "test")
    entry = FileEntry(sha256=digest_file(directory / LIBRARY), size=(directory / LIBRARY).stat().st_size)
    manifest = manifest.model_copy(update={"files": {**manifest.files, LIBRARY: entry}, **changes})
    inputs = manifest.network | ({RECORDS: manifest.records_sha256} if manifest.records_sha256 else {})
    said = statement(manifest.build, manifest.files, inputs, manifest.components, __version__)
    manifest = manifest.model_copy(update={"provenance": said.model_dump(mode="json", exclude_none=True)})
    (directory / MANIFEST).write_text(manifest.sealed().model_dump_json())


def stored(directory: Path) -> Path:
    """An unpacked package, moved to where the store would have it."""
    return directory.rename(directory.with_name(digest_as_tar({file.name: file for file in directory.iterdir()})))
