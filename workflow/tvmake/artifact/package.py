"""The package: mod.so, mod.json and mod.params in one tar, and how to open it safely."""

import tarfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from pydantic import ValidationError

from tvmake.artifact.manifest import OLDEST_SCHEMA_VERSION, SCHEMA_VERSION, FileEntry, Manifest
from tvmake.errors import InputError
from tvmake.storage.documents import parse
from tvmake.storage.files import digest_file
from tvmake.storage.plain_files import broken_link, read_plain
from tvmake.storage.tar import Member, extract, read_tar, write_tar

LIBRARY, MANIFEST, WEIGHTS, SELF_TEST = "mod.so", "mod.json", "mod.params", "self_test.npz"
PACKAGE = "package.tar"
REQUIRED = (LIBRARY, MANIFEST, WEIGHTS)

MOST_MANIFEST_BYTES = 16 << 20
"""mod.json is read as a whole; that of a large network has a few MB."""

AGAIN = "rebuild the package with `tvmake make`, or copy it again from its source"


def check_is_package_file(file: Path) -> None:
    """Refuse a file that cannot be a package, before reading it.

    Raises:
        InputError: the file is missing, or is a directory, a pipe, a device, or a file of an unpacked package.
    """
    if problem := broken_link(file):
        raise InputError(str(file), problem, "correct it, or name the package itself")
    if not file.exists():
        variant = next(Path().glob(f"*/{file}/{PACKAGE}"), None) if file.parts and not file.is_absolute() else None
        remedy = (
            f"name {variant}"
            if variant
            else "`tvmake make` builds packages, `tvmake compile MODEL` a package of one model"
        )
        raise InputError(str(file), "no such package", remedy)
    if file.is_dir():
        inside = file / PACKAGE
        remedy = f"name {inside}" if inside.is_file() else "name a package.tar"
        raise InputError(str(file), "is a directory, not a package", remedy)
    if not file.is_file():
        raise InputError(str(file), "is a pipe, a socket or a device, not a package", "name a package.tar")
    if file.name in (LIBRARY, MANIFEST, WEIGHTS):
        raise InputError(str(file), "is a part of a package", f"name the {PACKAGE} that it came in")


def is_package(file: Path) -> bool:
    """Whether a file is a package, be it damaged or of another version."""
    try:
        with tarfile.open(file, "r:") as archive:
            return MANIFEST in archive.getnames()
    except (tarfile.TarError, OSError):
        return False


def pack(files: Mapping[str, Path], destination: Path) -> None:
    """Write ``files`` (member name → file) as a USTAR archive: sorted members, fixed owner, mode and time.

    Raises:
        InputError: a file is missing, or differs from its digest in the manifest.
    """
    manifest = read_manifest(files[MANIFEST].read_bytes(), str(files[MANIFEST]))
    for name, file in files.items():
        if name != MANIFEST:
            check_file(file, name, manifest, str(file))
    write_tar(files, destination)


def read_manifest(data: bytes, where: str) -> Manifest:
    """Parse mod.json.

    Raises:
        InputError: damaged, or of another schema version.
    """
    try:
        manifest = parse(Manifest, data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if first["loc"] == ("schema_version",):
            version = first["input"]
            problem = f"mod.json has schema version {version}, expected {OLDEST_SCHEMA_VERSION} to {SCHEMA_VERSION}"
            is_newer = isinstance(version, int) and version > SCHEMA_VERSION
            raise InputError(where, problem, "use the tvmake that wrote it" if is_newer else AGAIN) from None
        key = ".".join(str(part) for part in first["loc"]) or "content"
        raise InputError(where, f"mod.json is damaged ({key}: {first['msg'].lower()})", AGAIN) from None
    if not manifest.is_intact:
        raise InputError(where, "mod.json is altered: its content differs from its own digest", AGAIN)
    return manifest


def load_manifest(file: Path, where: str) -> Manifest:
    """Read a mod.json outside a package.

    Raises:
        InputError: missing, not a plain file, damaged, or another schema version.
    """
    try:
        return read_manifest(read_plain(file, MOST_MANIFEST_BYTES, "manifest", AGAIN), where)
    except FileNotFoundError:
        raise InputError(where, f"{MANIFEST} is missing", AGAIN) from None


def check_file(file: Path, name: str, manifest: Manifest, where: str) -> None:
    """Compare a file with its digest in the manifest, before anything loads it.

    Raises:
        InputError: missing, truncated or altered.
    """
    if not file.is_file():
        raise InputError(where, f"{name} is missing", AGAIN)
    size = file.stat().st_size
    entry = manifest.files.get(name)
    # A different size is enough evidence; large files are not read then.
    sha256 = digest_file(file) if entry is None or size == entry.size else ""
    _check_entry(FileEntry(sha256=sha256, size=size), name, manifest, where)


def verify_directory(directory: Path, where: str) -> Manifest:
    """Check an unpacked package against its manifest.

    Raises:
        InputError: a file is missing, truncated, altered or unknown.
    """
    manifest = load_manifest(directory / MANIFEST, where)
    for name in manifest.files:
        check_file(directory / name, name, manifest, where)
    return manifest


def unpack(package: Path, directory: Path) -> Manifest:
    """Extract a package into an existing empty directory and verify it.

    Only plain files at the top level are accepted: no links, devices, directories, or names that leave ``directory``.

    Raises:
        InputError: not a package, truncated, altered, or with unsafe members.
    """
    expected = _leading_manifest(package)
    names: set[str] = set()
    for member in read_tar(package, "package", AGAIN):
        entry = expected.files.get(member.name)
        if entry is not None and entry.size != member.size:
            raise InputError(str(package), f"{member.name} has {member.size} bytes, expected {entry.size}", AGAIN)
        extract(member, directory / member.name, package, AGAIN)
        names.add(member.name)
    _check_names(names, package)
    manifest = verify_directory(directory, str(package))
    _check_known(names, manifest, package)
    return manifest


def inspect(package: Path) -> Manifest:
    """Check a package as :func:`unpack` does, without writing anything.

    Raises:
        InputError: not a package, truncated, altered, or with unsafe members.
    """
    manifest = _leading_manifest(package)
    entries: dict[str, FileEntry] = {}
    for member in read_tar(package, "package", AGAIN):
        digest = sha256()
        while block := member.read(1 << 20):
            digest.update(block)
        if member.missing:
            raise _cut(package, member)
        entries[member.name] = FileEntry(sha256=digest.hexdigest(), size=member.size)
    for name in manifest.files:
        if name not in entries:
            raise InputError(str(package), f"{name} is missing", AGAIN)
        _check_entry(entries[name], name, manifest, str(package))
    _check_known(set(entries), manifest, package)
    return manifest


def _leading_manifest(package: Path) -> Manifest:
    """The manifest, before anything else of a package is read or written.

    Raises:
        InputError: no package, or its manifest is missing or damaged.
    """
    names: set[str] = set()
    content = b""
    for member in read_tar(package, "package", AGAIN):
        names.add(member.name)
        if member.name == MANIFEST:
            if member.size > MOST_MANIFEST_BYTES:
                raise InputError(str(package), f"{MANIFEST} has {member.size} bytes", AGAIN)
            content = member.read(member.size)
            if member.missing:
                raise _cut(package, member)
    _check_names(names, package)
    return read_manifest(content, str(package))


def _cut(package: Path, member: Member) -> InputError:
    read = member.size - member.missing
    return InputError(str(package), f"truncated: {member.name} ends after {read} of {member.size} bytes", AGAIN)


def _check_entry(actual: FileEntry, name: str, manifest: Manifest, where: str) -> None:
    entry = manifest.files.get(name)
    if entry is None:
        raise InputError(where, f"{name} is not in the manifest", AGAIN)
    if actual.size != entry.size:
        state = "truncated" if actual.size < entry.size else "altered"
        raise InputError(where, f"{name} is {state}: {actual.size} bytes, expected {entry.size}", AGAIN)
    if actual.sha256 != entry.sha256:
        raise InputError(where, f"{name} is altered: its sha256 differs from mod.json's", AGAIN)


def _check_names(names: set[str], package: Path) -> None:
    missing = [name for name in REQUIRED if name not in names]
    if missing:
        raise InputError(str(package), f"truncated or not a package: {', '.join(missing)} missing", AGAIN)


def _check_known(names: set[str], manifest: Manifest, package: Path) -> None:
    unknown = sorted(names - set(manifest.files) - {MANIFEST})
    if unknown:
        raise InputError(str(package), f"has files that are not in its manifest: {', '.join(unknown)}", AGAIN)
