"""Load ``.pt2`` files of ``torch.export.save`` without running code that they contain."""

import io
import json
import os
import pickle
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sympy
import torch
import torch.ao.quantization.fx._decomposed  # registers the operators of quantised networks, which files refer to
from torch.export import ExportedProgram
from torch.export.pt2_archive._package import PT2ArchiveReader, load_pt2

from tvmake.artifact.signature import Signature
from tvmake.errors import InputError
from tvmake.frontend.file_kinds import ARCHIVES, DAMAGES, archive_kind
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.source_file import COPY, open_source
from tvmake.frontend.torch import program as exported
from tvmake.frontend.torch import refusals
from tvmake.frontend.torch.exporting.output_structure import drop_none_outputs
from tvmake.frontend.torch.pt2 import containers, versions
from tvmake.frontend.torch.pt2 import safety as pt2_safety

_SAVE = "write it with torch.export.save(torch.export.export(module.eval(), inputs), 'model.pt2')"


def load(source: Path, options: ImportOptions) -> ExportedProgram:
    """Load an exported program.

    Unless ``options.trusted``, the archive may contain tensors and a graph only (see ``safety``), pickled members
    are read with PyTorch's restricted unpickler, and the formats of PyTorch before 2.8 are refused.

    Raises:
        InputError: the file is missing, damaged or not a .pt2, or loading it could run code.
    """
    _check_archive(source)
    where = str(source)
    if not options.trusted:
        _refuse_code(source)
    try:
        _register_containers(source)
        if options.trusted:
            program = torch.export.load(where)
        else:
            with _restricted_unpickling():
                program = load_pt2(where).exported_programs["model"]
    except Exception as error:
        # The deserialiser raises many types of errors, from AssertionError to UnpicklingError.
        if (version := versions.foreign_torch_version(source)) is not None:
            problem = f"PyTorch {version} wrote it, and the one installed, {torch.__version__}, cannot load it: {_one_line(error)}"
            raise InputError(where, problem, versions.export_again_remedy()) from error
        if (kind := _example_inputs_class(source)) is not None:
            problem = f"stores example inputs in objects of '{kind}', which cannot be loaded"
            raise InputError(where, problem, "set program.example_inputs = None before torch.export.save") from error
        raise InputError(where, f"PyTorch {torch.__version__} cannot load it: {_one_line(error)}", _SAVE) from error
    _drop_derived_ranges(program)
    containers.convert_to_plain_containers(program)
    drop_none_outputs(program)
    return program


def inspect(source: Path) -> Signature:
    """The model's inputs and outputs, without an import; never runs code from the file.

    Raises:
        InputError: as ``load``, and for programs that cannot be imported.
    """
    where, program = str(source), load(source, ImportOptions(source=str(source), format="pt2"))
    refusals.refuse_training(where, program)
    refusals.refuse_half_precision(where, program)
    refusals.refuse_random_numbers(where, program)
    refusals.refuse_shapes_of_data(where, program)
    return exported.signature(where, program)


def _check_archive(source: Path) -> None:
    where = str(source)
    with open_source(source, ".pt2", COPY) as file:
        start = file.read(4)
    if not zipfile.is_zipfile(source):
        problem = "is truncated" if start == b"PK\x03\x04" else "is not a .pt2 archive"
        raise InputError(where, problem, COPY if start == b"PK\x03\x04" else _SAVE)
    try:
        kind = archive_kind(source)
        if kind not in ("pt2", None):
            what, remedy = ARCHIVES[kind]
            raise InputError(where, f"is {what}", remedy)
        with zipfile.ZipFile(source) as archive:
            if not _is_uncompressed(archive, source):
                raise InputError(where, "was not written by PyTorch: its members are compressed or overlap", _SAVE)
            damaged = archive.testzip()
    except DAMAGES as error:
        raise InputError(where, f"is a damaged archive: {error}", COPY) from error
    if damaged:
        raise InputError(where, f"is damaged: the checksum of {damaged} does not match", COPY)


def _refuse_code(source: Path) -> None:
    where = str(source)
    try:
        # The reader that load_pt2 uses: a second zip parser could see other members in a crafted file.
        with PT2ArchiveReader(where) as archive:
            names = archive.get_file_names()
            pt2_safety.check_members(names)
            for name in names:
                if name.endswith("_config.json"):
                    pt2_safety.check_payload(archive.read_bytes(name))
            pt2_safety.check_graph(archive.read_bytes("models/model.json"))
    except pt2_safety.UnsafeError as error:
        raise InputError(
            where,
            f"loading it could run code: {error}",
            "if you trust its author, set `trusted: true`; otherwise export the model again without custom objects",
        ) from error
    except (AssertionError, AttributeError, LookupError, RecursionError, RuntimeError, TypeError, ValueError) as error:
        problem = f"is not a .pt2 of PyTorch 2.8 or later: {_one_line(error)}"
        raise InputError(where, problem, versions.export_again_remedy()) from error


def _register_containers(source: Path) -> None:
    with PT2ArchiveReader(str(source)) as archive:
        if "models/model.json" in archive.get_file_names():
            for spec in containers.specs(json.loads(archive.read_bytes("models/model.json"))):
                containers.register_plain_containers(spec)


def _example_inputs_class(source: Path) -> str | None:
    """The name of a library's class in which the example inputs are stored; None if there is none."""
    try:
        with PT2ArchiveReader(str(source)) as archive:
            torch.load(io.BytesIO(archive.read_bytes("data/sample_inputs/model.pt")), weights_only=True)
    except pickle.UnpicklingError as error:
        match = re.search(r"Unsupported global: GLOBAL (\S+)", str(error))
        return match and match[1]
    except (AttributeError, EOFError, LookupError, OSError, RuntimeError, TypeError, ValueError):
        return None  # otherwise damaged, or without examples
    return None


def _is_uncompressed(archive: zipfile.ZipFile, source: Path) -> bool:
    """Whether all members are uncompressed: a compressed member can expand a thousandfold."""
    members = archive.infolist()
    sizes = sum(member.file_size for member in members)
    return sizes <= source.stat().st_size and all(
        member.compress_type == zipfile.ZIP_STORED and member.file_size == member.compress_size for member in members
    )


@contextmanager
def _restricted_unpickling() -> Iterator[None]:
    """Make every ``torch.load`` use the restricted unpickler, even if the deserialiser requests the full one."""
    names = ("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    before = {name: os.environ.pop(name, None) for name in names}
    os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _drop_derived_ranges(program: ExportedProgram) -> None:
    """Remove the ranges of derived dimensions (``2*batch``), so that the program can be decomposed.

    The ranges of the symbols themselves are equivalent. Repair: `derived-symbol-ranges`.
    """
    for node in program.graph.find_nodes(op="placeholder"):
        for extent in getattr(node.meta.get("val"), "shape", ()):
            if isinstance(extent, torch.SymInt):
                ranges = extent.node.shape_env.var_to_range
                for expression in [key for key in ranges if not isinstance(key, sympy.Symbol)]:
                    del ranges[expression]


def _one_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
