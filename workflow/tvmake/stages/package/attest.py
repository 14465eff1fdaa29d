"""Attest: write a package's provenance and component list beside it.

A separate stage, because it names the model's file: a comment in that file changes these files, but no package.
"""

from pathlib import Path

from tvmake.artifact import paths
from tvmake.stages.descriptor import Input, Log, Output, Stage


def attest(package: Path, source: Path, provenance: Path, components: Path) -> None:
    """Write a package's provenance (in-toto) and component list (CycloneDX); the same files give the same bytes.

    Args:
        source: record of the imported source (a ``SourceRecord``).

    Raises:
        InputError: the package is damaged, or not one that tvmake builds.
    """
    from tvmake.artifact import stage_json
    from tvmake.artifact.package import inspect
    from tvmake.artifact.source import SourceRecord
    from tvmake.provenance.components import component_list
    from tvmake.provenance.library import library_of
    from tvmake.provenance.origin import origin, statement_json
    from tvmake.storage.files import digest_file, write_text

    manifest = inspect(package)
    digest = digest_file(package)
    record = stage_json.load(SourceRecord, source)
    write_text(provenance, statement_json(origin(manifest, digest, record, str(package))))
    write_text(components, component_list(manifest, digest, library_of(package), record))


STAGE = Stage(
    name="attest",
    summary="Write a package's provenance and component list beside it.",
    function=attest,
    inputs=(Input("package.tar", "package"), Input("source.json", "source")),
    outputs=(
        Output(
            "package.provenance.json",
            paths.VARIANT,
            "provenance",
            "Provenance to write (in-toto statement, JSON).",
            has_parts=True,
        ),
        Output(
            "package.cdx.json", paths.VARIANT, "components", "Component list to write (CycloneDX JSON).", has_parts=True
        ),
    ),
    logs=(Log("{model}/{precision}/{target}/attest.log"),),
    is_goal=True,
    is_hermetic=True,  # not cached: a lookup takes as long
    memory_mb=600,
    minutes=10,
)
