"""The package: mod.so, mod.json and mod.params in one tar, and how to open it safely.

A package with several functions (:mod:`tvmake.artifact.functions`) has a directory for each of them.
"""

import tarfile
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path

from pydantic import ValidationError

from tvmake.artifact.functions import FUNCTIONS_SCHEMA_VERSION, LINKS_SCHEMA_VERSION, FunctionsManifest
from tvmake.artifact.manifest import OLDEST_SCHEMA_VERSION, FileEntry, Manifest
from tvmake.artifact.tokenizer_file import TOKENIZER
from tvmake.errors import InputError
from tvmake.storage.documents import parse
from tvmake.storage.files import DigestSink, Sink, digest_file
from tvmake.storage.plain_files import broken_link, read_plain
from tvmake.storage.tar import Content, Member, extract, read_tar, write_tar

LIBRARY, MANIFEST, WEIGHTS, SELF_TEST = "mod.so", "mod.json", "mod.params", "self_test.npz"
PACKAGE = "package.tar"
REQUIRED = (LIBRARY, MANIFEST, WEIGHTS)
OPTIONAL = (SELF_TEST, TOKENIZER)

MOST_MANIFEST_BYTES = 16 << 20
"""mod.json is read as a whole; that of a large network has a few MB."""

AGAIN = "rebuild the package with `tvmake make`, or copy it again from its source"

AnyManifest = Manifest | FunctionsManifest
"""The content of a package's mod.json."""


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


def pack(files: Mapping[str, Path], destination: Path, write_weights: Callable[[Sink], None] | None = None) -> None:
    """Write ``files`` (member name → file) as a USTAR archive: sorted members, fixed owner, mode and time.

    Args:
        write_weights: writes mod.params into the archive, if it is not among the files.

    Raises:
        InputError: a file is missing, or differs from its digest in the manifest.
    """
    manifest = read_any_manifest(files[MANIFEST].read_bytes(), str(files[MANIFEST]))
    for name, file in files.items():
        if name != MANIFEST:
            check_file(file, name, manifest, str(file))
    members: dict[str, Path | Content] = dict(files)
    if write_weights is not None:
        members[WEIGHTS] = _checked_content(write_weights, WEIGHTS, manifest, str(destination))
    write_tar(members, destination)


def _checked_content(write: Callable[[Sink], None], name: str, manifest: AnyManifest, where: str) -> Content:
    """A member that is compared with its digest in the manifest when it is written."""

    def write_checked(file: Sink) -> None:
        sink = DigestSink(file)
        write(sink)
        _check_entry(FileEntry(sha256=sink.hexdigest(), size=sink.tell()), name, manifest, where)

    return Content(manifest.files[name].size, write_checked)


def read_any_manifest(data: bytes, where: str) -> AnyManifest:
    """Parse mod.json of a package with one network, or with several functions.

    Raises:
        InputError: damaged, or of another schema version.
    """
    manifest = _parse(data, where)
    if not manifest.is_intact:
        raise InputError(where, "mod.json is altered: its content differs from its own digest", AGAIN)
    if isinstance(manifest, FunctionsManifest):
        _check_function_files(manifest, where)
    return manifest


def _parse(data: bytes, where: str) -> AnyManifest:
    try:
        return parse(Manifest, data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        version = first["input"] if first["loc"] == ("schema_version",) else None
        if version in (FUNCTIONS_SCHEMA_VERSION, LINKS_SCHEMA_VERSION):
            return _parse_functions(data, where)
        if first["loc"] == ("schema_version",):
            problem = (
                f"mod.json has schema version {version}, expected {OLDEST_SCHEMA_VERSION} to {LINKS_SCHEMA_VERSION}"
            )
            is_newer = isinstance(version, int) and version > LINKS_SCHEMA_VERSION
            raise InputError(where, problem, "use the tvmake that wrote it" if is_newer else AGAIN) from None
        raise _damage_error(error, where) from None


def _parse_functions(data: bytes, where: str) -> FunctionsManifest:
    try:
        return parse(FunctionsManifest, data)
    except ValidationError as error:
        raise _damage_error(error, where) from None


def _damage_error(error: ValidationError, where: str) -> InputError:
    first = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"]) or "content"
    return InputError(where, f"mod.json is damaged ({key}: {first['msg'].lower()})", AGAIN)


def _check_function_files(manifest: FunctionsManifest, where: str) -> None:
    """Check that a package lists the weights and the files of its functions, each once, and no others."""
    names = [function.name for function in manifest.functions]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(where, f"mod.json has the function '{twice}' twice", AGAIN)
    required = {WEIGHTS, *(f"{name}/{file}" for name in names for file in (MANIFEST, LIBRARY))}
    if missing := sorted(required - set(manifest.files)):
        raise InputError(where, f"mod.json does not list {missing[0]}", AGAIN)
    if unknown := sorted(set(manifest.files) - required - {f"{name}/{file}" for name in names for file in OPTIONAL}):
        raise InputError(where, f"mod.json lists {unknown[0]!r}, which is not a file of a function", AGAIN)


def read_manifest(data: bytes, where: str) -> Manifest:
    """Parse mod.json of a package with one network.

    Raises:
        InputError: damaged, of another schema version, or of a package with several functions.
    """
    return single_network(read_any_manifest(data, where), where)


def single_network(manifest: AnyManifest, where: str) -> Manifest:
    """The manifest of a package with one network.

    Raises:
        InputError: the package has several functions.
    """
    if isinstance(manifest, FunctionsManifest):
        names = [function.name for function in manifest.functions]
        remedy = f"`tvmake run {where} --function {names[0]}` runs one of them"
        raise InputError(where, f"has several functions ({', '.join(names)}), and one network is needed here", remedy)
    return manifest


def load_any_manifest(file: Path, where: str) -> AnyManifest:
    """Read a mod.json outside a package.

    Raises:
        InputError: missing, not a plain file, damaged, or another schema version.
    """
    try:
        return read_any_manifest(read_plain(file, MOST_MANIFEST_BYTES, "manifest", AGAIN), where)
    except FileNotFoundError:
        raise InputError(where, f"{MANIFEST} is missing", AGAIN) from None


def load_manifest(file: Path, where: str) -> Manifest:
    """Read the mod.json of a package with one network.

    Raises:
        InputError: as :func:`load_any_manifest`; or the package has several functions.
    """
    return single_network(load_any_manifest(file, where), where)


def check_file(file: Path, name: str, manifest: AnyManifest, where: str) -> None:
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


def verify_directory(directory: Path, where: str) -> AnyManifest:
    """Check an unpacked package against its manifest.

    Raises:
        InputError: a file is missing, truncated, altered or unknown.
    """
    manifest = load_any_manifest(directory / MANIFEST, where)
    for name in manifest.files:
        check_file(directory / name, name, manifest, where)
    if isinstance(manifest, FunctionsManifest):
        load_functions(directory, manifest, where)
    return manifest


def load_functions(directory: Path, manifest: FunctionsManifest, where: str) -> dict[str, Manifest]:
    """The manifests of an unpacked package's functions, by name.

    Raises:
        InputError: one is damaged, or describes other files than the package has.
    """
    read = {
        function.name: load_manifest(directory / function.name / MANIFEST, f"{where}: {function.name}")
        for function in manifest.functions
    }
    _check_functions(manifest, read, where)
    return read


def _check_functions(manifest: FunctionsManifest, read: Mapping[str, Manifest], where: str) -> None:
    for function in manifest.functions:
        own = read[function.name]
        for file in (LIBRARY, *OPTIONAL):
            if own.files.get(file) != manifest.files.get(f"{function.name}/{file}"):
                raise InputError(where, f"{function.name}/{MANIFEST} belongs to another {file}", AGAIN)
        if len(own.parameters) != len(function.weights):
            counts = f"{len(function.weights)} weights for the {len(own.parameters)} parameters"
            raise InputError(where, f"mod.json has {counts} of '{function.name}'", AGAIN)


def unpack(package: Path, directory: Path) -> AnyManifest:
    """Extract a package into an existing empty directory and verify it.

    Only plain files that its manifest lists are accepted: no links, devices, other directories than those of its functions, or names
    that leave ``directory``.

    Raises:
        InputError: not a package, truncated, altered, or with unsafe members.
    """
    expected = _leading_manifest(package)
    names: set[str] = set()
    for member in _members(package, expected):
        entry = expected.files.get(member.name)
        if entry is not None and entry.size != member.size:
            raise InputError(str(package), f"{member.name} has {member.size} bytes, expected {entry.size}", AGAIN)
        destination = directory / member.name
        destination.parent.mkdir(exist_ok=True)
        extract(member, destination, package, AGAIN)
        names.add(member.name)
    _check_names(names, expected, package)
    manifest = verify_directory(directory, str(package))
    _check_known(names, manifest, package)
    return manifest


def inspect(package: Path) -> Manifest:
    """Check a package with one network, without writing anything.

    Raises:
        InputError: not a package, truncated, altered, or with unsafe members; or it has several functions.
    """
    return single_network(inspect_any(package), str(package))


def inspect_any(package: Path) -> AnyManifest:
    """Check a package as :func:`unpack` does, without writing anything.

    Raises:
        InputError: not a package, truncated, altered, or with unsafe members.
    """
    return inspect_functions(package)[0]


def inspect_functions(package: Path) -> tuple[AnyManifest, dict[str, Manifest]]:
    """Check a package as :func:`inspect_any` does; also returns the manifests of its functions, by name: none with one network.

    Raises:
        InputError: not a package, truncated, altered, or with unsafe members.
    """
    manifest = _leading_manifest(package)
    entries: dict[str, FileEntry] = {}
    functions: dict[str, Manifest] = {}
    for member in _members(package, manifest):
        digest, kept = sha256(), b""
        keeps = member.name.endswith(f"/{MANIFEST}") and member.size <= MOST_MANIFEST_BYTES
        while block := member.read(1 << 20):
            digest.update(block)
            kept += block if keeps else b""
        if member.missing:
            raise _cut(package, member)
        entries[member.name] = FileEntry(sha256=digest.hexdigest(), size=member.size)
        if member.name.endswith(f"/{MANIFEST}"):
            _check_entry(entries[member.name], member.name, manifest, str(package))
            name = member.name.partition("/")[0]
            functions[name] = read_manifest(kept, f"{package}: {name}")
    for name in manifest.files:
        if name not in entries:
            raise InputError(str(package), f"{name} is missing", AGAIN)
        _check_entry(entries[name], name, manifest, str(package))
    _check_known(set(entries), manifest, package)
    if not isinstance(manifest, FunctionsManifest):
        return manifest, {}
    _check_functions(manifest, functions, str(package))
    return manifest, {function.name: functions[function.name] for function in manifest.functions}


def _members(package: Path, manifest: AnyManifest) -> Iterator[Member]:
    """The members of a package; those in directories only if the manifest lists them.

    Raises:
        InputError: the archive is damaged, or has other members.
    """
    is_nested = isinstance(manifest, FunctionsManifest)
    for member in read_tar(package, "package", AGAIN, nested=is_nested):
        if "/" in member.name and member.name not in manifest.files:
            raise InputError(str(package), f"has files that are not in its manifest: {member.name}", AGAIN)
        yield member


def _leading_manifest(package: Path) -> AnyManifest:
    """The manifest, before anything else of a package is read or written.

    Raises:
        InputError: no package, or its manifest is missing or damaged.
    """
    names: set[str] = set()
    content = b""
    for member in read_tar(package, "package", AGAIN, nested=True):
        names.add(member.name)
        if member.name == MANIFEST:
            if member.size > MOST_MANIFEST_BYTES:
                raise InputError(str(package), f"{MANIFEST} has {member.size} bytes", AGAIN)
            content = member.read(member.size)
            if member.missing:
                raise _cut(package, member)
    manifest = read_any_manifest(content, str(package)) if MANIFEST in names else None
    if not isinstance(manifest, FunctionsManifest) and any("/" in name for name in names):
        for _ in read_tar(package, "package", AGAIN):
            pass  # refuses the member
    _check_names(names, manifest, package)
    assert manifest is not None
    return manifest


def _cut(package: Path, member: Member) -> InputError:
    read = member.size - member.missing
    return InputError(str(package), f"truncated: {member.name} ends after {read} of {member.size} bytes", AGAIN)


def _check_entry(actual: FileEntry, name: str, manifest: AnyManifest, where: str) -> None:
    entry = manifest.files.get(name)
    if entry is None:
        raise InputError(where, f"{name} is not in the manifest", AGAIN)
    if actual.size != entry.size:
        state = "truncated" if actual.size < entry.size else "altered"
        raise InputError(where, f"{name} is {state}: {actual.size} bytes, expected {entry.size}", AGAIN)
    if actual.sha256 != entry.sha256:
        raise InputError(where, f"{name} is altered: its sha256 differs from mod.json's", AGAIN)


def _check_names(names: set[str], manifest: AnyManifest | None, package: Path) -> None:
    required = [MANIFEST, *manifest.files] if isinstance(manifest, FunctionsManifest) else REQUIRED
    missing = [name for name in required if name not in names]
    if missing:
        raise InputError(str(package), f"truncated or not a package: {', '.join(missing)} missing", AGAIN)


def _check_known(names: set[str], manifest: AnyManifest, package: Path) -> None:
    unknown = sorted(names - set(manifest.files) - {MANIFEST})
    if unknown:
        raise InputError(str(package), f"has files that are not in its manifest: {', '.join(unknown)}", AGAIN)
