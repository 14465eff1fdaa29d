"""Functions of a package as packages of one network, for devices: each has its own copy of the weights."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tvmake.artifact.functions import FunctionsManifest
from tvmake.artifact.manifest import Manifest, Parameter
from tvmake.artifact.package import MANIFEST, WEIGHTS, load_functions, pack
from tvmake.artifact.weights.file_format import TensorForm, stored_tensors, write_tensors
from tvmake.device import store
from tvmake.errors import InputError
from tvmake.provenance.statement import with_files
from tvmake.storage.files import atomic_path, digest_file, write_text
from tvmake.storage.mapped.mapping import map_file
from tvmake.storage.temporary import temporary_directory


def choose_function(package: Path, chosen: str | None) -> tuple[Path, Manifest]:
    """A function of a package as :func:`put_function` returns it, or a package with one network itself.

    Args:
        chosen: the function's name; None for the only one.

    Raises:
        InputError: the package is damaged, has no such function, or has several and none was chosen.
        MachineError: the store cannot be written, or belongs to another user.
    """
    manifest = store.inspect_any_package(package)
    if not isinstance(manifest, FunctionsManifest):
        if chosen is not None:
            raise InputError(str(package), f"has no function '{chosen}', only one network", "omit --function")
        return package, manifest
    names = [function.name for function in manifest.functions]
    if chosen is None and len(names) > 1:
        raise InputError(str(package), f"has several functions: {', '.join(names)}", f"name one: --function {names[0]}")
    return put_function(package, chosen or names[0])


def put_functions(package: Path) -> dict[str, tuple[Path, Manifest]]:
    """All functions of a package by name, as :func:`put_function` returns them; a package with one network under an empty name.

    Raises:
        InputError: the package is damaged.
        MachineError: the store cannot be written, or belongs to another user.
    """
    manifest = store.inspect_any_package(package)
    if not isinstance(manifest, FunctionsManifest):
        return {"": (package, manifest)}
    return {function.name: put_function(package, function.name) for function in manifest.functions}


def put_function(package: Path, name: str) -> tuple[Path, Manifest]:
    """A function of a package as a package of one network, in this machine's store; also returns its manifest.

    Raises:
        InputError: the package is damaged, or has no such function.
        MachineError: the store cannot be written, or belongs to another user.
    """
    root = store.store_root()
    directory, manifest = store.put_any(package, root)
    names = [function.name for function in manifest.functions] if isinstance(manifest, FunctionsManifest) else []
    if not isinstance(manifest, FunctionsManifest) or name not in names:
        raise InputError(str(package), f"has no function '{name}'", f"its functions are {', '.join(names) or 'none'}")
    file = root / f"{directory.name}-{name}.tar"
    with suppress(InputError):
        return file, store.inspect_package(file)
    return file, split_function(directory, manifest, name, file)


def split_function(directory: Path, manifest: FunctionsManifest, name: str, destination: Path) -> Manifest:
    """Write a function of an unpacked package as a package of one network, and return its manifest.

    Raises:
        InputError: the package is damaged.
        MachineError: the package cannot be written.
    """
    own = load_functions(directory, manifest, str(directory))[name]
    (names,) = (entry.weights for entry in manifest.functions if entry.name == name)
    with temporary_directory("tvmake-function-") as temporary:
        files = {file: directory / name / file for file in (MANIFEST, *own.files)}
        files[WEIGHTS] = Path(temporary) / WEIGHTS
        select_weights(directory / WEIGHTS, names, own.parameters, files[WEIGHTS])
        if digest_file(files[WEIGHTS]) != own.files[WEIGHTS].sha256:
            own = with_files(own, {WEIGHTS: files[WEIGHTS]}).sealed()
            files[MANIFEST] = Path(temporary) / MANIFEST
            write_text(files[MANIFEST], own.model_dump_json())
        pack(files, destination)
    return own


def select_weights(source: Path, names: Sequence[str], parameters: Sequence[Parameter], destination: Path) -> None:
    """Write some tensors of a file of parameters, under new names.

    Args:
        names: of the tensors, for each of ``parameters``.

    Raises:
        OSError: the source cannot be read.
        ValueError: the source is damaged.
    """
    stored, content = {tensor.name: tensor for tensor in stored_tensors(source)}, map_file(source)
    tensors = [stored[name] for name in names]
    forms = [
        TensorForm(parameter.name, tensor.shape, tensor.type)
        for parameter, tensor in zip(parameters, tensors, strict=True)
    ]
    data = (content[tensor.offset :][: tensor.size].data for tensor in tensors)
    with atomic_path(destination) as temporary, temporary.open("wb") as file:
        write_tensors(forms, data, file)
