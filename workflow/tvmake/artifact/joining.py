"""Join packages of one network each to a package with several functions, which has each distinct weight once."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

from tvmake import __version__
from tvmake.artifact import stage_json
from tvmake.artifact.functions import (
    JOIN_TYPE,
    MOST_FUNCTIONS,
    FunctionEntry,
    FunctionName,
    FunctionsManifest,
)
from tvmake.artifact.links import Links, resolve_links, resolve_names
from tvmake.artifact.manifest import PREDICATE_TYPE, STATEMENT_TYPE, FileEntry, Manifest
from tvmake.artifact.package import AGAIN, LIBRARY, MANIFEST, OPTIONAL, WEIGHTS, unpack
from tvmake.artifact.states import check_lengths
from tvmake.artifact.weights.contents import Content, read_contents
from tvmake.artifact.weights.file_format import StoredTensor, TensorForm, stored_tensors, write_tensors
from tvmake.artifact.weights.names import unused_name
from tvmake.errors import InputError
from tvmake.storage.files import digest_file
from tvmake.storage.mapped.mapping import map_file, release
from tvmake.storage.tar import write_tar
from tvmake.storage.temporary import temporary_directory

BUILDER: Final = "urn:tvmake:builder"

NAME = re.compile(get_args(FunctionName)[1].metadata[0].pattern)


@dataclass(frozen=True)
class _Function:
    """An unpacked package."""

    name: str
    package: Path
    directory: Path
    manifest: Manifest


@dataclass(frozen=True)
class _Weight:
    """A tensor of the joined package, and where it comes from."""

    form: TensorForm
    file: Path
    source: StoredTensor


def join(
    packages: Mapping[str, Path],
    package: Path,
    *,
    model: str,
    precision: str | None = None,
    target_name: str | None = None,
    links: Links | None = None,
    separate_states: Sequence[str] = (),
) -> FunctionsManifest:
    """Write a package with a function for each package; the same packages give the same bytes.

    Memory holds at most one tensor. The files of all packages are on the disk meanwhile.

    Args:
        packages: packages of one network each by the names of functions, in the order of the functions.
        package: the package to write.
        model: its name.
        precision: its precision; by default those of the packages (``float32+int8``).
        target_name: its target; by default those of the packages.
        links: outputs that other functions take (``tvmake.artifact.links``).
        separate_states: names of states that each function has for itself; ``%d`` matches a number.

    Raises:
        InputError: a package is damaged or has functions already, a name is not one, there are too many, no device could run all of
            them, a link has no output or input, or a shared state grows with others in each function.
        MachineError: the package cannot be written.
    """
    check_functions(packages)
    with temporary_directory("tvmake-join-") as temporary:
        functions = []
        for name, file in packages.items():
            directory = temporary / name
            directory.mkdir()
            functions.append(_Function(name, file, directory, _unpack_single(file, directory)))
        _check_devices(functions)
        precision = precision or "+".join(dict.fromkeys(function.manifest.precision for function in functions))
        target_name = target_name or "+".join(dict.fromkeys(function.manifest.target_name for function in functions))
        signatures = {function.name: function.manifest.signature for function in functions}
        linked, separate = resolve_links(links or {}, signatures), resolve_names(separate_states, signatures)
        check_lengths(signatures, separate)
        entries, weights = _distinct_weights(functions)
        joined = temporary / WEIGHTS
        with joined.open("wb") as opened:
            write_tensors([weight.form for weight in weights], _data(weights), opened)
        files = {WEIGHTS: joined}
        for function in functions:
            present = (name for name in (LIBRARY, MANIFEST, *OPTIONAL) if (function.directory / name).is_file())
            files |= {f"{function.name}/{name}": function.directory / name for name in present}
        digests = {
            name: FileEntry(sha256=digest_file(file), size=file.stat().st_size) for name, file in sorted(files.items())
        }
        manifest = FunctionsManifest(
            model=model,
            precision=precision,
            target_name=target_name,
            functions=tuple(entry.model_copy(update={"links": linked.get(entry.name, {})}) for entry in entries),
            separate_states=separate,
            files=digests,
            provenance=_provenance(functions, digests, model, precision, target_name),
        ).sealed()
        files[MANIFEST] = temporary / MANIFEST
        stage_json.save(manifest, files[MANIFEST])
        write_tar(files, package)
    return manifest


def check_functions(packages: Mapping[str, object]) -> None:
    """Refuse names that are not functions' names, and too many or no functions.

    Raises:
        InputError: naming them.
    """
    if not packages:
        raise InputError("functions", "no package is named", "name one for each function: FUNCTION=PACKAGE.tar")
    for name in packages:
        if not NAME.fullmatch(name):
            remedy = "write lower-case letters, digits and underscores, a letter first"
            raise InputError(f"function '{name}'", "is not a name of a function", remedy)
    if len(packages) > MOST_FUNCTIONS:
        problem = f"{len(packages)} functions, and a package has at most {MOST_FUNCTIONS}"
        raise InputError("functions", problem, "leave some out, or write several packages")


def _unpack_single(package: Path, directory: Path) -> Manifest:
    manifest = unpack(package, directory)
    if isinstance(manifest, FunctionsManifest):
        raise InputError(str(package), "has functions already", "name the packages that it was joined from")
    return manifest


def _check_devices(functions: list[_Function]) -> None:
    """Refuse functions that no device runs together: a process opens a package for one device."""
    first = functions[0]
    for function in functions[1:]:
        for of, what in ((lambda manifest: manifest.device_kind, "device"), (_architecture, "processor")):
            ours, theirs = of(first.manifest), of(function.manifest)
            if ours != theirs:
                problem = f"its kernels are for another {what} ({theirs}) than those of '{first.name}' ({ours})"
                remedy = "build both for one kind of target: all functions of a package run on one device"
                raise InputError(f"{function.name}={function.package}", problem, remedy)


def _architecture(manifest: Manifest) -> str:
    """The processor's architecture of the host code; empty if the target does not name it."""
    host = manifest.target.get("host")
    target = host if isinstance(host, Mapping) else manifest.target
    return str(target.get("mtriple", "")).partition("-")[0]


def _distinct_weights(functions: list[_Function]) -> tuple[list[FunctionEntry], list[_Weight]]:
    """The functions with their weights' names, and each distinct weight once.

    A weight has the name of the first function's parameter that it is, with a number if another weight has this name.
    """
    weights: dict[Content, _Weight] = {}
    names: set[str] = set()
    entries = []
    for function in functions:
        file = function.directory / WEIGHTS
        parameters = [parameter.name for parameter in function.manifest.parameters]
        try:
            stored = {tensor.name: tensor for tensor in stored_tensors(file)}
            contents = read_contents(file, {*parameters})
            used = [(stored[name], contents[name]) for name in parameters]
        except (OSError, ValueError, KeyError):
            raise InputError(str(function.package), f"{WEIGHTS} is not what {MANIFEST} describes", AGAIN) from None
        for tensor, content in used:
            if content not in weights:
                name = unused_name(tensor.name, names)
                weights[content] = _Weight(TensorForm(name, tensor.shape, tensor.type), file, tensor)
        entries.append(
            FunctionEntry(name=function.name, weights=tuple(weights[content].form.name for _, content in used))
        )
    return entries, [*weights.values()]


def _data(weights: list[_Weight]) -> Iterator[memoryview]:
    """The data of each weight; its memory is returned to the system after it is written."""
    file, data = None, None
    for weight in weights:
        if weight.file != file:
            file, data = weight.file, map_file(weight.file)
        assert data is not None
        tensor = data[weight.source.offset :][: weight.source.size]
        yield tensor.data
        release(tensor.ctypes.data, tensor.nbytes)


def _provenance(
    functions: list[_Function], files: Mapping[str, FileEntry], model: str, precision: str, target_name: str
) -> dict[str, Any]:
    """An in-toto statement: the package's files, and the packages that they come from."""

    def resource(name: str, sha256: str) -> dict[str, Any]:
        return {"name": name, "digest": {"sha256": sha256}}

    return {
        "_type": STATEMENT_TYPE,
        "subject": [resource(name, entry.sha256) for name, entry in sorted(files.items())],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "buildDefinition": {
                "buildType": JOIN_TYPE,
                "externalParameters": {"model": model, "precision": precision, "target_name": target_name},
                "resolvedDependencies": [
                    resource(function.name, digest_file(function.package)) for function in functions
                ],
            },
            "runDetails": {"builder": {"id": BUILDER, "version": {"tvmake": __version__}}},
        },
    }
