"""Check a package against its digests, provenance, component list and signatures, without loading any of its code."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tvmake import __version__
from tvmake.artifact.functions import FunctionsManifest
from tvmake.artifact.manifest import Component, Manifest
from tvmake.artifact.package import AnyManifest, inspect_functions
from tvmake.artifact.source import SourceRecord
from tvmake.errors import InputError
from tvmake.provenance.components import SUFFIX, check_component_list, component_list
from tvmake.provenance.keys import name_of, read_public_keys
from tvmake.provenance.library import library_of
from tvmake.provenance.origin import check_origin, origin_file
from tvmake.provenance.signature import Signed, check, signature_file
from tvmake.provenance.statement import check_functions_statement, check_statement
from tvmake.storage.files import digest_file
from tvmake.storage.plain_files import read_plain

MOST_LIST_BYTES = 64 << 20
"""A component list has some kB."""


@dataclass(frozen=True)
class Checked:
    """A package that is intact."""

    manifest: AnyManifest
    networks: Mapping[str, Manifest]
    """The manifests of its functions by name; a package with one network has its own under an empty name."""
    sha256: str
    source: SourceRecord | None
    """The origin of its network; None without a provenance file beside it."""
    signed: Signed | None
    source_signed: Signed | None
    """The signature of the provenance beside it."""
    is_trusted: bool
    """Whether the signatures belong to a trusted key."""
    has_list: bool
    """Whether a component list is beside it."""


def components_file(package: Path) -> Path:
    """The path of a package's component list."""
    return package.with_suffix(SUFFIX)


def files_beside(package: Path) -> list[Path]:
    """The files about a package that exist beside it, with the signatures."""
    signed = (package, origin_file(package))
    named = (components_file(package), origin_file(package), *map(signature_file, signed))
    return [file for file in named if file.is_file()]


def to_sign(package: Path) -> list[Path]:
    """The files that a package's signer signs: the package, and its provenance file if it exists."""
    return [package, *(file for file in (origin_file(package),) if file.is_file())]


def check_package(
    package: Path, key: Path | None = None, *, require_signature: bool = False, ignore_signature: bool = False
) -> Checked:
    """Check digests, provenance, component list and signatures, in this order, up to the first failure.

    Args:
        key: the trusted public keys; the package, and its provenance file if it exists, must be signed by one of them.
        require_signature: refuse unsigned files. The signer matters only with ``key``.
        ignore_signature: skip signatures, for a package that will be signed again.

    Raises:
        InputError: a check fails, or a file cannot be read.
    """
    trusted = None if key is None else read_public_keys(key)
    manifest, functions = inspect_functions(package)
    source, has_list = None, components_file(package).is_file()
    digest = digest_file(package)
    if isinstance(manifest, FunctionsManifest):
        _check_functions(manifest, functions, package)
    else:
        check_statement(manifest, str(package))
        source = check_origin(origin_file(package), manifest, digest) if origin_file(package).exists() else None
        if has_list:
            _check_list(package, manifest, digest, source)
    is_required = require_signature or trusted is not None
    signed = source_signed = None
    if not ignore_signature:
        signed = _signature(package, trusted, is_required)
        source_signed = _signature(origin_file(package), trusted, is_required) if source else None
    return Checked(
        manifest=manifest,
        networks={"": manifest} if isinstance(manifest, Manifest) else functions,
        sha256=digest,
        source=source,
        signed=signed,
        source_signed=source_signed,
        is_trusted=signed is not None and trusted is not None,
        has_list=has_list,
    )


def _check_functions(manifest: FunctionsManifest, functions: Mapping[str, Manifest], package: Path) -> None:
    check_functions_statement(manifest, str(package))
    for name, function in functions.items():
        check_statement(function, f"{package}: {name}")
    for file in (origin_file(package), components_file(package)):
        if file.exists():
            problem = "describes a package with one network, and this one has several functions"
            raise InputError(str(file), problem, "delete it: it belongs to a package that had this name before")


def _signature(file: Path, trusted: list[bytes] | None, is_required: bool) -> Signed | None:
    signature = signature_file(file)
    if not signature.exists():
        if is_required:
            raise InputError(str(file), f"is not signed: {signature.name} does not exist", "`tvmake sign` signs it")
        return None
    signed = check(file, signature)
    if trusted is not None and signed.key not in trusted:
        whose = ", ".join(map(name_of, trusted[:3])) + (" …" if len(trusted) > 3 else "")
        raise InputError(str(signature), f"belongs to another key ({signed.by}) than the trusted one ({whose})")
    return signed


def _check_list(package: Path, manifest: Manifest, digest: str, source: SourceRecord | None) -> None:
    file = components_file(package)
    content = read_plain(file, MOST_LIST_BYTES, "component list")
    expected = component_list(manifest, digest, library_of(package), source)
    # Another version may list other things; that the list is this package's is checked all the same.
    is_ours = Component(name="tvmake", version=__version__) in manifest.components
    check_component_list(content, expected, str(file), is_ours, with_source=source is not None)
