"""Whether a package is what it says, without loading any of its code."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from tvmake import __version__
from tvmake.artifact.files import digest_file
from tvmake.artifact.manifest import Component, Manifest
from tvmake.artifact.package import LIBRARY, inspect
from tvmake.artifact.plain_tar import extract, read_tar
from tvmake.errors import InputError
from tvmake.provenance.components import SUFFIX, check_component_list, component_list
from tvmake.provenance.keys import name_of, read_public_keys
from tvmake.provenance.signature import Signed, check, signature_file
from tvmake.provenance.statement import Statement, check_statement
from tvmake.target.elf import read_library

MOST_LIST_BYTES = 64 << 20
"""A component list has some kB."""


@dataclass(frozen=True)
class Checked:
    """A package that is intact."""

    manifest: Manifest
    statement: Statement
    sha256: str
    signed: Signed | None
    is_trusted: bool
    """Whether the signature is by a key that was given."""
    has_list: bool
    """Whether its component list lies beside it."""


def components_file(package: Path) -> Path:
    """Where a package's component list lies."""
    return package.with_suffix(SUFFIX)


def check_package(
    package: Path, key: Path | None = None, *, require_signature: bool = False, ignore_signature: bool = False
) -> Checked:
    """Check digests, provenance, component list and signature, in this order; the first failure ends it.

    Args:
        key: the public keys to trust; a signature by one of them must be there then.
        require_signature: refuse a package without a signature. By whose key it is counts only with ``key``.
        ignore_signature: leave the signature out, for a package that is about to be signed anew.

    Raises:
        InputError: something does not fit, or cannot be read.
    """
    trusted = None if key is None else read_public_keys(key)
    manifest = inspect(package)
    statement = check_statement(manifest, str(package))
    digest = digest_file(package)
    has_list = components_file(package).is_file()
    if has_list:
        _check_list(package, manifest, digest)
    signature = signature_file(package)
    signed = None
    if signature.exists() and not ignore_signature:
        signed = check(package, signature)
        if trusted is not None and signed.key not in trusted:
            whose = ", ".join(map(name_of, trusted[:3])) + (" …" if len(trusted) > 3 else "")
            raise InputError(str(signature), f"is by another key ({signed.by}) than the one given ({whose})")
    elif require_signature or trusted is not None:
        raise InputError(str(package), f"is not signed: there is no {signature.name}")
    return Checked(manifest, statement, digest, signed, signed is not None and trusted is not None, has_list)


def _check_list(package: Path, manifest: Manifest, digest: str) -> None:
    beside = components_file(package)
    if beside.stat().st_size > MOST_LIST_BYTES:
        raise InputError(str(beside), f"is no component list: larger than {MOST_LIST_BYTES >> 20} MiB")
    with tempfile.TemporaryDirectory(prefix="tvmake-verify-") as directory:
        library = Path(directory) / LIBRARY
        for member in read_tar(package, "package", ""):
            if member.name == LIBRARY:
                extract(member, library, package, "")
        try:
            read = read_library(library)
        except ValueError as error:
            raise InputError(str(package), f"{LIBRARY} is no library: {error}") from None
    # Another version may list other things; that the list is this package's is checked all the same.
    is_ours = Component(name="tvmake", version=__version__) in manifest.components
    check_component_list(beside.read_bytes(), component_list(manifest, digest, read), str(beside), is_ours)
