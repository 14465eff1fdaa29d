"""The in-toto statement of a package: its files, their inputs, and the builder (SLSA provenance 1.0).

https://in-toto.io/Statement/v1 and https://slsa.dev/spec/v1.0/provenance define the fields. The statement has no time and no
machine, so the same inputs give the same bytes.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tvmake.artifact.functions import JOIN_TYPE, FunctionsManifest
from tvmake.artifact.manifest import PREDICATE_TYPE, STATEMENT_TYPE, Component, FileEntry, Manifest
from tvmake.artifact.package import AGAIN
from tvmake.errors import InputError
from tvmake.storage.documents import FailsFast
from tvmake.storage.files import digest_file

BUILD_TYPE: Final = "urn:tvmake:build:v1"
BUILDER: Final = "urn:tvmake:builder"

RECORDS = "best.json"
"""The name of the tuning records among the inputs."""

PYPI = ("tvmake", "apache-tvm", "apache-tvm-ffi", "numpy")
"""The components that are Python packages."""


class _Part(FailsFast, BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Resource(_Part):
    """in-toto's ResourceDescriptor: has a URI or a digest."""

    name: str
    uri: str | None = None
    digest: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class BuildDefinition(_Part):
    """The build request and the inputs."""

    buildType: Literal["urn:tvmake:build:v1", "urn:tvmake:join:v1"] = BUILD_TYPE
    """How the package was made: from a network, or from packages of one network each."""
    externalParameters: dict[str, Any]
    """The build request."""
    internalParameters: dict[str, Any] = Field(default_factory=dict)
    resolvedDependencies: list[Resource]


class Builder(_Part):
    """The builder."""

    id: Literal["urn:tvmake:builder"] = BUILDER
    version: dict[str, str]


class RunDetails(_Part):
    """The build."""

    builder: Builder


class Predicate(_Part):
    """SLSA's provenance."""

    buildDefinition: BuildDefinition
    runDetails: RunDetails


class Statement(FailsFast, BaseModel):
    """in-toto's statement."""

    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True, validate_by_name=True)

    type_: Literal["https://in-toto.io/Statement/v1"] = Field(default=STATEMENT_TYPE, alias="_type")
    subject: list[Resource]
    predicateType: Literal["https://slsa.dev/provenance/v1"] = PREDICATE_TYPE
    predicate: Predicate


def statement(
    options: dict[str, Any],
    files: Mapping[str, FileEntry],
    inputs: Mapping[str, str],
    components: Iterable[Component],
    version: str,
) -> Statement:
    """The provenance of a build.

    Args:
        options: the build request.
        files: the package's files.
        inputs: sha256 of the build's own inputs, by name.
        components: the programs and libraries that took part.
        version: of tvmake.
    """
    dependencies = [resource(name, digest) for name, digest in sorted(inputs.items())]
    dependencies += [
        Resource(name=part.name, uri=uri(part), annotations={"version": part.version}) for part in components
    ]
    return Statement(
        subject=[resource(name, entry.sha256) for name, entry in sorted(files.items())],
        predicate=Predicate(
            buildDefinition=BuildDefinition(externalParameters=options, resolvedDependencies=dependencies),
            runDetails=RunDetails(builder=Builder(version={"tvmake": version})),
        ),
    )


def with_files(manifest: Manifest, files: Mapping[str, Path]) -> Manifest:
    """A manifest, not sealed yet, with further files among the package's and in its statement."""
    added = {name: FileEntry(sha256=digest_file(file), size=file.stat().st_size) for name, file in files.items()}
    entries = {**manifest.files, **added}
    subject = [resource(name, entry.sha256).model_dump(exclude_none=True) for name, entry in sorted(entries.items())]
    return manifest.model_copy(update={"files": entries, "provenance": {**manifest.provenance, "subject": subject}})


def uri(part: Component) -> str:
    """A component's package URL (https://github.com/package-url/purl-spec)."""
    from urllib.parse import quote

    kind = "pypi" if part.name in PYPI else "generic"
    return f"pkg:{kind}/{part.name}@{quote(part.version, safe='')}"


def check_statement(manifest: Manifest, where: str) -> Statement:
    """Check that a package's statement is well-formed and agrees with the rest of its manifest.

    Raises:
        InputError: it is missing, of another kind, or of other files, inputs or options.
    """
    if not manifest.provenance:
        raise InputError(where, "has no provenance", AGAIN)
    recorded = _parse(manifest, where, BUILD_TYPE)
    definition = recorded.predicate.buildDefinition
    if definition.externalParameters != manifest.build:
        raise InputError(where, "its provenance names other build options than its manifest", AGAIN)
    dependencies = _digests(definition.resolvedDependencies)
    if dependencies.get(RECORDS) != manifest.records_sha256:
        raise InputError(where, "its provenance names other tuning records than its manifest", AGAIN)
    if any(dependencies.get(name) != digest for name, digest in manifest.network.items()):
        raise InputError(where, "its provenance names another network than its manifest", AGAIN)
    versions = {
        dependency.name: dependency.annotations["version"]
        for dependency in definition.resolvedDependencies
        if dependency.annotations and "version" in dependency.annotations
    }
    if versions != {part.name: part.version for part in manifest.components}:
        raise InputError(where, "its provenance names other programs and libraries than its manifest", AGAIN)
    return recorded


def check_functions_statement(manifest: FunctionsManifest, where: str) -> None:
    """Check that the statement of a package with several functions, if it has one, is well-formed and of the package's files.

    Raises:
        InputError: it is of another kind, or of other files.
    """
    if manifest.provenance:
        _parse(manifest, where, JOIN_TYPE)


def _parse(manifest: Manifest | FunctionsManifest, where: str, build_type: str) -> Statement:
    try:
        recorded = Statement.model_validate(manifest.provenance)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise InputError(
            where, f"its provenance is not a statement of tvmake ({key}: {first['msg'].lower()})", AGAIN
        ) from None
    if recorded.predicate.buildDefinition.buildType != build_type:
        raise InputError(where, "its provenance is that of another kind of package", AGAIN)
    if _digests(recorded.subject) != {name: entry.sha256 for name, entry in manifest.files.items()}:
        raise InputError(where, "its provenance belongs to other files", AGAIN)
    return recorded


def resource(name: str, sha256: str) -> Resource:
    """A file by its digest."""
    return Resource(name=name, digest={"sha256": sha256})


def _digests(resources: Iterable[Resource]) -> dict[str, str]:
    return {
        dependency.name: dependency.digest.get("sha256", "")
        for dependency in resources
        if dependency.digest is not None
    }
