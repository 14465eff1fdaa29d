"""Read an ONNX file, and refuse an unusable model in one line.

This module does not import TVM, because `tvmake init` uses it too.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import checker
from onnx.external_data_helper import ExternalDataInfo, uses_external_data

from tvmake.errors import InputError
from tvmake.frontend.onnx.embedded import without_large_data
from tvmake.frontend.onnx.external import load_external, refer_to_external, stays_in_file
from tvmake.frontend.onnx.rewrites.replace_contrib import move_misplaced
from tvmake.frontend.onnx.structure import check_structure
from tvmake.frontend.source_file import open_source
from tvmake.storage.mapped.mapping import map_file


def load(source: Path, files: Sequence[str] = ()) -> onnx.ModelProto:
    """The checked model, including external data; large initializers refer to their file.

    :func:`tvmake.frontend.onnx.external.array_of` reads them.

    Args:
        source: the .onnx file.
        files: further files that the model may read, listed in the config; ``<source>.data``, ``<source>_data`` and
            ``<stem>.data`` beside it need no entry.

    Raises:
        InputError: no such file; not an ONNX model; a graph the ONNX checker rejects; external data that is missing,
            outside the model's directory, or not listed.
    """
    model = read_checked(source, files, refers=True)
    try:
        load_data(model, source.parent)
    except (checker.ValidationError, ValueError, OSError) as error:
        problem = f"external data cannot be read: {_one_line(error)}"
        raise InputError(str(source), problem, _COPY_DATA) from error
    return model


def load_data(model: onnx.ModelProto, directory: Path) -> None:
    """Read external data from files in a directory; large initializers get references to their file instead.

    Raises:
        OSError, ValueError, onnx.checker.ValidationError: they cannot be read.
    """
    for tensor in filter(uses_external_data, model.graph.initializer):
        if stays_in_file(tensor):
            refer_to_external(tensor, directory)
    for tensor in filter(uses_external_data, _all_tensors(model)):
        if not Path(ExternalDataInfo(tensor).location).is_absolute():
            load_external(tensor, directory)


def read_checked(source: Path, files: Sequence[str] | None = None, refers: bool = False) -> onnx.ModelProto:
    """The checked model, without the content of external data.

    Args:
        source: as for :func:`load`, as are the errors.
        files: as for :func:`load`; None to accept any.
        refers: whether large initializers become references to the model's own file.
    """
    where = str(source)
    model = parse(source, refers)
    move_misplaced(model)
    external = [info for info in _external(model) if not refers or info.location != str(source.absolute())]
    if external:
        _check_external(source, external, files)
    try:
        checker.check_model(_checkable(model))
    except checker.ValidationError as error:
        raise InputError(where, f"not a valid ONNX model: {_one_line(error)}", _EXPORT_AGAIN) from error
    return model


def external_locations(source: Path) -> list[str]:
    """The names of the files that hold the model's external data, relative to its directory; raises as :func:`parse`."""
    return sorted({info.location for info in _external(parse(source))})


def has_external(model: onnx.ModelProto) -> bool:
    """Whether some tensors of the model are in other files."""
    return any(True for _ in _external(model))


def parse(source: Path, refers: bool = False) -> onnx.ModelProto:
    """The stored model, without external data and not yet checked.

    Args:
        refers: as for :func:`read_checked`; not if the model has external data.

    Raises:
        InputError: no such file, a directory, an empty file, not an ONNX model, a model without outputs or with an
            impossible structure.
    """
    where = str(source)
    model = onnx.ModelProto()
    try:
        with open_source(source, ".onnx", _COPY_MODEL) as file:
            if not (refers and _refer(model, source)):
                model.ParseFromString(file.read())
    except DecodeError as error:
        raise InputError(where, "not an ONNX model, or a truncated one", _COPY_MODEL) from error
    if not model.ir_version or not model.HasField("graph"):
        raise InputError(where, "not an ONNX model: it has no graph", _COPY_MODEL)
    check_structure(model, where)
    if not model.graph.output:
        raise InputError(where, "the graph has no outputs", _EXPORT_AGAIN)
    return model


def _refer(model: onnx.ModelProto, source: Path) -> bool:
    """Parse a model, with references to its own file in place of large initializers; False if it has none, or other external data.

    Raises:
        InputError: its structure is impossible.
    """
    where = str(source.absolute())
    data, count = without_large_data(map_file(source).data, where) or (b"", 0)
    if not count:
        return False
    model.ParseFromString(data)
    check_structure(model, str(source))
    locations = [info.location for info in _external(model)]
    if locations != [where] * count:
        model.Clear()
        return False
    return True


def _checkable(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy for the checker, which needs a rank of every input and output and reads external data in the working directory.

    Tensors without elements replace external ones.
    """
    values = (*model.graph.input, *model.graph.output)
    has_ranks = all(value.type.tensor_type.HasField("shape") for value in values if value.type.HasField("tensor_type"))
    if has_ranks and not has_external(model):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for value in (*copy.graph.input, *copy.graph.output):
        if value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape"):
            value.type.tensor_type.shape.SetInParent()
    for tensor in _all_tensors(copy):
        if uses_external_data(tensor):
            tensor.CopyFrom(onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=[0]))
    return copy


_COPY_MODEL = "Download or copy the file again; a Git LFS pointer or an HTML page is a common cause."
_COPY_DATA = "Copy the data files that were exported with the model into its directory."
_EXPORT_AGAIN = "Export the model again; `python -m onnx.checker <file>` shows the same complaint."


def _external(model: onnx.ModelProto) -> Iterator[ExternalDataInfo]:
    for tensor in _all_tensors(model):
        if uses_external_data(tensor):
            yield ExternalDataInfo(tensor)


def _all_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    yield from _tensors(model.graph)
    for function in model.functions:
        yield from _attribute_tensors(function.node)


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    yield from _attribute_tensors(graph.node)


def _attribute_tensors(nodes: Sequence[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for graph in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
                yield from _tensors(graph)


def _check_external(source: Path, infos: Sequence[ExternalDataInfo], files: Sequence[str] | None) -> None:
    where = str(source)
    locations = sorted({info.location for info in infos})
    folder = source.parent.resolve()
    beside = {folder / (source.name + end) for end in (".data", "_data")} | {folder / (source.stem + ".data")}
    listed = beside | {Path(file).resolve() for file in files or ()}
    for location in locations:
        path = folder / location
        if Path(location).is_absolute():
            problem = f"external data is named by an absolute path ({location}), which is valid on one machine only"
            raise InputError(where, problem, _save_again(source))
        if path.is_symlink():  # the onnx package opens no links
            problem = f"external data {location!r} is a symbolic link, which is not followed"
            raise InputError(where, problem, f"copy the files themselves: cp -rL {source.parent} DIRECTORY")
        if not path.resolve().is_relative_to(folder):
            raise InputError(where, f"external data {location!r} is outside the model's directory", _save_again(source))
        if not path.is_file():
            raise InputError(where, f"external data {location!r} is missing", _COPY_DATA)
        size = path.stat().st_size
        if any(info.location == location and (info.offset or 0) + (info.length or 0) > size for info in infos):
            raise InputError(where, f"external data {location!r} is shorter than the model declares", _COPY_DATA)
    if files is None:
        return
    unlisted = [name for name in locations if folder / name not in listed and (folder / name).resolve() not in listed]
    if unlisted:
        raise InputError(
            where,
            f"reads external data that is not listed: {', '.join(unlisted)}",
            f"List them: `files: [{', '.join(str(source.parent / name) for name in unlisted)}]`.",
        )


def _save_again(source: Path) -> str:
    call = f"onnx.save_model(model, {source.name!r}, save_as_external_data=True, location={source.name + '.data'!r})"
    return f"save it where it was exported, with the data file's relative name: {call}"


def _one_line(error: Exception) -> str:
    """The first sentence of ONNX's message; the rest is a dump of the node."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = " ".join(lines[:2]) if lines else type(error).__name__
    return text if len(text) <= 300 else text[:297] + "..."
