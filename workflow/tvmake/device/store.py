"""Packages on this machine, by digest: unpacked once, verified, shared by all runs.

This process runs all functions of a package with several. Devices get packages of one function each (:mod:`tvmake.device.function_packages`).
"""

import os
import stat
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from tvmake.artifact.elf import loaded_bytes
from tvmake.artifact.functions import FunctionsManifest
from tvmake.artifact.manifest import Manifest
from tvmake.artifact.package import (
    AGAIN,
    LIBRARY,
    MANIFEST,
    WEIGHTS,
    AnyManifest,
    check_is_package_file,
    inspect_any,
    load_any_manifest,
    load_functions,
    load_manifest,
    single_network,
    unpack,
    verify_directory,
)
from tvmake.artifact.weights.file_format import stored_tensors
from tvmake.device.interface import Deployment
from tvmake.device.known_packages import WRITABLE_BY_OTHERS, known_digest, noted_digest, package_entries
from tvmake.device.memory_needs import check_address_space
from tvmake.errors import InputError, MachineError
from tvmake.provenance.statement import check_functions_statement, check_statement
from tvmake.storage.directories import HOME_VARIABLE, cache_directory
from tvmake.storage.files import atomic_directory, digest_file, making_directories
from tvmake.storage.tar import digest_as_tar

TVM = "apache-tvm"
"""The distribution whose version must be equal for code and runtime."""


def store_root() -> Path:
    """``$TVMAKE_HOME/packages``, or the user's cache directory."""
    return cache_directory("packages")


def put(package: Path, root: Path) -> Path:
    """Unpack a package with one network under its digest, unless an intact copy exists, and return the directory.

    Raises:
        InputError: the package is damaged, its statement or files belong to another package, it has several functions, or it was
            built with another TVM than the one installed here, whose runtime devices get.
        MachineError: the store cannot be written, or belongs to another user; or the package needs more memory than this process may use.
    """
    directory, manifest = put_any(package, root)
    single_network(manifest, str(package))
    return directory


def put_any(package: Path, root: Path) -> tuple[Path, AnyManifest]:
    """Unpack a package, as :func:`put` does, that may have several functions; also returns its manifest.

    Raises:
        InputError: as :func:`put`.
        MachineError: as :func:`put`.
    """
    check_is_package_file(package)
    _make_private(root)
    digest = known_digest(package, root, digest_file)
    directory = root / digest
    try:
        manifest = read_any_stored_manifest(directory)
    except InputError:
        # The copy is missing or altered; the package replaces it.
        manifest = _unpack(package, directory)
    if isinstance(manifest, FunctionsManifest):
        _check_functions(directory, manifest, package)
    else:
        check_statement(manifest, str(package))
        _check_contents(directory, manifest, package)
        _check_version(manifest, package)
    return directory, manifest


def inspect_package(package: Path) -> Manifest:
    """Check a package with one network, as :func:`inspect_any_package` does.

    Raises:
        InputError: as :func:`inspect_any_package`, or it has several functions.
    """
    return single_network(inspect_any_package(package), str(package))


def inspect_any_package(package: Path) -> AnyManifest:
    """Check a package as :func:`tvmake.artifact.package.inspect_any` does; one that is in this machine's store is not read again.

    Raises:
        InputError: not a package, truncated, altered, or with unsafe members.
    """
    root = store_root()
    with suppress(InputError, OSError):
        if digest := noted_digest(package, root):
            return read_any_stored_manifest(root / digest)
    return inspect_any(package)


def _unpack(package: Path, directory: Path) -> AnyManifest:
    if directory.is_symlink():
        directory.unlink()
    with atomic_directory(directory) as unpacked:
        manifest = unpack(package, unpacked)
        for entry in package_entries(unpacked):
            entry.chmod(entry.stat().st_mode & ~WRITABLE_BY_OTHERS)
        if _digest(unpacked) != directory.name:
            raise InputError(str(package), "was not packed by tvmake, or changed while it was read", AGAIN)
    directory.chmod(directory.stat().st_mode & ~WRITABLE_BY_OTHERS)
    return manifest


def read_stored_manifest(directory: Path) -> Manifest:
    """The manifest of a package with one network in the store, after the checks of :func:`read_any_stored_manifest`.

    Raises:
        InputError: as :func:`read_any_stored_manifest`, or it has several functions.
    """
    return single_network(read_any_stored_manifest(directory), str(directory))


def read_any_stored_manifest(directory: Path) -> AnyManifest:
    """The manifest of a package in the store, after checking the package against the digest in its directory's name.

    The digests in the manifest would not do: anybody who can write to the store could write a matching manifest.


    Raises:
        InputError: the package is missing or altered, or users other than its owner may write to it.
    """
    if not directory.is_dir():
        raise InputError(str(directory), "has no package", "run again to store it there")
    try:
        statuses = [directory.lstat(), *(entry.lstat() for entry in package_entries(directory))]
        is_plain = all(stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode) for status in statuses)
        is_private = all(
            status.st_uid in (os.geteuid(), 0) and not status.st_mode & WRITABLE_BY_OTHERS for status in statuses
        )
        is_intact = is_plain and is_private and known_digest(directory, directory.parent, _digest) == directory.name
    except (OSError, ValueError):
        is_intact = False
    if not is_intact:
        # Damaged files are named here; otherwise a file was changed together with the manifest.
        verify_directory(directory, str(directory))
        raise InputError(str(directory), "was altered after it was stored", "run again to store it again")
    return load_any_manifest(directory / MANIFEST, str(directory))


def _digest(directory: Path) -> str:
    files = [entry for entry in package_entries(directory) if not entry.is_dir() or entry.parent != directory]
    return digest_as_tar({file.relative_to(directory).as_posix(): file for file in files})


def _make_private(root: Path) -> None:
    with making_directories(root):
        root.mkdir(parents=True, exist_ok=True)
        about = root.stat()
        if about.st_mode & WRITABLE_BY_OTHERS and about.st_uid == os.geteuid():
            root.chmod(about.st_mode & ~WRITABLE_BY_OTHERS)
            about = root.stat()
    if about.st_uid not in (os.geteuid(), 0) or about.st_mode & WRITABLE_BY_OTHERS:
        remedy = f"name a directory of your own with {HOME_VARIABLE}"
        raise MachineError(str(root), "packages are run from there, and other users may write to it", remedy)


def _check_contents(directory: Path, manifest: Manifest, package: Path) -> None:
    """Check contents independent of digests: a manifest may have been written for truncated files, or for another network."""
    _check_library(directory / LIBRARY, LIBRARY, package)
    check_address_space({"": manifest}, manifest.files[WEIGHTS].size, str(package))
    known = _stored_weights(directory, package)
    missing = next((parameter.name for parameter in manifest.parameters if parameter.name not in known), None)
    if missing is not None:
        raise InputError(str(package), f"{WEIGHTS} lacks the parameter '{missing}'", AGAIN)


def _check_functions(directory: Path, manifest: FunctionsManifest, package: Path) -> None:
    """Check the functions of a package as :func:`put` checks a package with one network."""
    check_functions_statement(manifest, str(package))
    own = load_functions(directory, manifest, str(package))
    check_address_space(own, manifest.files[WEIGHTS].size, str(package))
    known = _stored_weights(directory, package)
    for function in manifest.functions:
        check_statement(own[function.name], f"{package}: {function.name}")
        library = f"{function.name}/{LIBRARY}"
        _check_library(directory / library, library, package)
        for parameter, name in zip(own[function.name].parameters, function.weights, strict=True):
            if name not in known:
                raise InputError(str(package), f"{WEIGHTS} lacks '{name}', a weight of '{function.name}'", AGAIN)
            if known[name] != parameter.shape:
                problem = f"'{name}' of {WEIGHTS} has another shape than '{parameter.name}' of '{function.name}'"
                raise InputError(str(package), problem, AGAIN)
        _check_version(own[function.name], package)
    if len({network.device_kind for network in own.values()}) > 1:
        raise InputError(str(package), "its functions are for several kinds of devices", AGAIN)


def _check_library(library: Path, name: str, package: Path) -> None:
    size, loaded = library.stat().st_size, loaded_bytes(library)
    if size < loaded:
        raise InputError(str(package), f"{name} is truncated: it has {size} bytes of {loaded}", AGAIN)


def _stored_weights(directory: Path, package: Path) -> dict[str, tuple[int, ...]]:
    """Shapes by name."""
    try:
        return {tensor.name: tensor.shape for tensor in stored_tensors(directory / WEIGHTS)}
    except ValueError as error:
        raise InputError(str(package), f"{WEIGHTS} is damaged: {error}", AGAIN) from None


def _check_version(manifest: Manifest, package: Path) -> None:
    version, installed = built_with(manifest), metadata.version(TVM)
    if version is not None and version.partition("+")[0] != installed.partition("+")[0]:
        problem = f"built with TVM {version}, but devices get the runtime of TVM {installed}"
        remedy = f"rebuild it here with `tvmake make`, or deploy it from a machine with TVM {version}"
        raise InputError(str(package), problem, remedy)


def built_with(manifest: Manifest) -> str | None:
    """The TVM version that a package was built with; None if it is not recorded."""
    return next((component.version for component in manifest.components if component.name == TVM), None)


def manifest_of(deployment: Deployment) -> Manifest | None:
    """A package's manifest; None if the package is not stored here.

    Raises:
        InputError: the stored manifest is damaged.
    """
    file = store_root() / deployment.package_sha256 / MANIFEST
    return load_manifest(file, str(file)) if file.is_file() else None


def device_kind(deployment: Deployment) -> str:
    """The kind of device that runs a package's kernels; ``cpu`` if the package is not stored here."""
    manifest = manifest_of(deployment)
    return manifest.device_kind if manifest else "cpu"
