"""The package: mod.so, mod.json and mod.params in one tar, and how to open it safely."""

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from pydantic import ValidationError

from tvmake.artifact.files import atomic_path, digest_file
from tvmake.artifact.manifest import SCHEMA_VERSION, Manifest
from tvmake.errors import InputError

LIBRARY, MANIFEST, WEIGHTS = "mod.so", "mod.json", "mod.params"
REQUIRED = (LIBRARY, MANIFEST, WEIGHTS)

_REFUSED = "make the package again with `tvmake make`, or copy it again from where it came"


def pack(files: Mapping[str, Path], destination: Path) -> None:
    """Write ``files`` (member name → file) as a USTAR archive: sorted members, fixed owner, mode and time.

    Raises:
        InputError: a file is missing, or differs from the digest the manifest gives.
    """
    manifest = read_manifest(files[MANIFEST].read_bytes(), str(files[MANIFEST]))
    for name, file in files.items():
        if name != MANIFEST:
            check_file(file, name, manifest, str(file))
    with atomic_path(destination) as temporary, tarfile.open(temporary, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, file in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size = file.stat().st_size
            member.mode = 0o755 if name.endswith(".so") else 0o644
            with file.open("rb") as content:
                archive.addfile(member, content)


def read_manifest(data: bytes, where: str) -> Manifest:
    """Parse mod.json.

    Raises:
        InputError: damaged, or of another schema version.
    """
    try:
        manifest = Manifest.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if first["loc"] == ("schema_version",):
            raise InputError(
                where, f"mod.json is of schema version {first['input']}, expected {SCHEMA_VERSION}"
            ) from None
        key = ".".join(str(part) for part in first["loc"]) or "content"
        raise InputError(where, f"mod.json is damaged ({key}: {first['msg'].lower()})", _REFUSED) from None
    if not manifest.is_intact:
        raise InputError(where, "mod.json is altered: its content differs from its own digest", _REFUSED)
    return manifest


def check_file(file: Path, name: str, manifest: Manifest, where: str) -> None:
    """Compare a file with its digest in the manifest, before anything loads it.

    Raises:
        InputError: missing, truncated or altered.
    """
    entry = manifest.files.get(name)
    if entry is None:
        raise InputError(where, f"{name} is not in the manifest", _REFUSED)
    if not file.is_file():
        raise InputError(where, f"{name} is missing", _REFUSED)
    size = file.stat().st_size
    if size != entry.size:
        state = "truncated" if size < entry.size else "altered"
        raise InputError(where, f"{name} is {state}: {size} bytes, expected {entry.size}", _REFUSED)
    if digest_file(file) != entry.sha256:
        raise InputError(where, f"{name} is altered: its sha256 differs from mod.json's", _REFUSED)


def verify_directory(directory: Path, where: str) -> Manifest:
    """Check an unpacked package against its manifest.

    Raises:
        InputError: a file is missing, truncated, altered or unknown.
    """
    if not (directory / MANIFEST).is_file():
        raise InputError(where, f"{MANIFEST} is missing", _REFUSED)
    manifest = read_manifest((directory / MANIFEST).read_bytes(), where)
    for name in manifest.files:
        check_file(directory / name, name, manifest, where)
    return manifest


def unpack(package: Path, directory: Path) -> Manifest:
    """Extract a package into an existing empty directory and verify it.

    Only plain files at the top level are accepted: no links, devices, directories, or names that leave ``directory``.

    Raises:
        InputError: not a package, truncated, altered, or with unsafe members.
    """
    try:
        with tarfile.open(package, "r:") as archive:
            names: set[str] = set()
            for member in archive:
                _refuse_unsafe(member, names, package)
                content = archive.extractfile(member)
                assert content is not None
                _extract(content, directory / member.name, member, package)
    except FileNotFoundError:
        raise InputError(str(package), "no such package") from None
    except IsADirectoryError:
        raise InputError(str(package), "is a directory, not a package") from None
    except (tarfile.TarError, EOFError):
        raise InputError(str(package), "not a package, or truncated", _REFUSED) from None
    missing = [name for name in REQUIRED if name not in names]
    if missing:
        raise InputError(str(package), f"truncated or not a package: {', '.join(missing)} missing", _REFUSED)
    manifest = verify_directory(directory, str(package))
    unknown = sorted(names - set(manifest.files) - {MANIFEST})
    if unknown:
        raise InputError(str(package), f"holds files its manifest does not name: {', '.join(unknown)}", _REFUSED)
    return manifest


def _refuse_unsafe(member: tarfile.TarInfo, seen: set[str], package: Path) -> None:
    path = PurePosixPath(member.name)
    if not member.isreg() or path.is_absolute() or len(path.parts) != 1 or path.name in ("", ".", ".."):
        raise InputError(
            str(package), f"unsafe member {member.name!r}: only plain top-level files are allowed", _REFUSED
        )
    if member.name in seen:
        raise InputError(str(package), f"member {member.name!r} appears twice", _REFUSED)
    seen.add(member.name)


def _extract(content: io.BufferedIOBase, destination: Path, member: tarfile.TarInfo, package: Path) -> None:
    written = 0
    with destination.open("xb") as file:
        while block := content.read(1 << 20):
            written += file.write(block)
    if written != member.size:
        raise InputError(
            str(package), f"truncated: {member.name} ends after {written} of {member.size} bytes", _REFUSED
        )
    if member.name.endswith(".so"):
        destination.chmod(0o755)
