"""The origin of a package's network: an in-toto statement beside the package.

The package identifies its network by content. This statement names the file, its format and the importer, so that another file with the same network gives the same package without new measurements.
"""

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from tvmake.artifact.manifest import Manifest
from tvmake.artifact.source import SourceRecord
from tvmake.errors import InputError
from tvmake.provenance.statement import Statement, check_statement, resource
from tvmake.storage.documents import parse
from tvmake.storage.files import digest_file
from tvmake.storage.permissions import unreadable_error
from tvmake.storage.plain_files import read_plain

SUFFIX = ".provenance.json"

PACKAGE = "package.tar"
"""The package's name in its statement, independent of its file name."""

MOST_BYTES = 64 << 20
"""It repeats the build options and names a few files: some kB."""

_AGAIN = "`tvmake make` writes it beside each package"


def origin_file(package: Path) -> Path:
    """The path of a package's provenance file."""
    return package.with_suffix(SUFFIX)


def origin(manifest: Manifest, package_sha256: str, source: SourceRecord, where: str) -> Statement:
    """The statement of a package: its own provenance, and the files that its network was read from.

    Raises:
        InputError: the package's own statement does not fit it.
    """
    build_statement = check_statement(manifest, where)
    definition = build_statement.predicate.buildDefinition
    files = [resource(name, digest) for name, digest in sorted(source.files.items())]
    with_source = definition.model_copy(
        update={
            "internalParameters": {"source": source.model_dump(mode="json")},
            "resolvedDependencies": [*definition.resolvedDependencies, *files],
        }
    )
    predicate = build_statement.predicate.model_copy(update={"buildDefinition": with_source})
    return build_statement.model_copy(update={"subject": [resource(PACKAGE, package_sha256)], "predicate": predicate})


def statement_json(statement: Statement) -> str:
    """A statement in a file beside a package."""
    return statement.model_dump_json(indent=1, exclude_none=True) + "\n"


def read_origin(file: Path) -> tuple[Statement, SourceRecord]:
    """Read a provenance file without comparing it with its package.

    Raises:
        InputError: it cannot be read, or is not such a statement.
    """
    try:
        statement = parse(Statement, read_plain(file, MOST_BYTES, "provenance"))
        return statement, SourceRecord.model_validate(
            statement.predicate.buildDefinition.internalParameters.get("source")
        )
    except OSError as error:
        raise unreadable_error(file, error) from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(str(part) for part in first["loc"]) or "content"
        raise InputError(
            str(file), f"is not a provenance statement of a package ({key}: {first['msg'].lower()})", _AGAIN
        ) from None


def check_origin(file: Path, manifest: Manifest, package_sha256: str) -> SourceRecord:
    """Check that a provenance file belongs to its package and agrees with it.

    Raises:
        InputError: it is damaged, belongs to another package, or contradicts the package.
    """
    recorded, source = read_origin(file)
    derived = origin(manifest, package_sha256, source, str(file))
    if recorded.subject != derived.subject:
        raise InputError(str(file), "is the provenance of another package", _AGAIN)
    if recorded != derived:
        raise InputError(str(file), "contradicts the package or itself", _AGAIN)
    return source


def check_made_of(file: Path, package: Path, networks: Sequence[Manifest], source: SourceRecord | None) -> None:
    """Check that a package was built from a file: one of the model's, or one of its networks'.

    Args:
        networks: the manifests of its functions; its own if it has one network.
        source: the network's origin, as far as the files beside the package state it.

    Raises:
        InputError: it was not, or this is unknown; or the file cannot be read.
    """
    try:
        digest = digest_file(file)
    except OSError as error:
        raise unreadable_error(file, error) from None
    if any(digest in network.network.values() for network in networks) or (
        source is not None and digest in source.files.values()
    ):
        return
    if source is None:
        raise InputError(
            str(package),
            f"was not built from {file}, and {origin_file(package).name}, which would list the model's files, is missing",
        )
    named = ", ".join(f"{name} (sha256 {sha256[:12]}…)" for name, sha256 in source.files.items()) or source.source
    raise InputError(str(package), f"was built from {named}, not from {file} (sha256 {digest[:12]}…)")
