"""PyTorch's ``.pt2`` files: load what ``torch.export.save`` wrote, without running code that the file brings along."""

import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sympy
import torch
from torch.export import ExportedProgram
from torch.export.pt2_archive._package import PT2ArchiveReader, load_pt2

from tvmake.artifact.signature import Signature
from tvmake.config.model import ImportOptions
from tvmake.errors import InputError
from tvmake.frontend import pt2_safety, torch_program

_SAVE = "write it with torch.export.save(torch.export.export(module.eval(), inputs), 'model.pt2')"
_COPY = "copy or download the file again"


def load(source: Path, options: ImportOptions) -> ExportedProgram:
    """Load an exported program.

    Unless ``options.trusted``, the archive may hold tensors and a graph only (see ``pt2_safety``), pickled members
    are read with PyTorch's restricted unpickler, and the formats of PyTorch before 2.8 are refused.

    Raises:
        InputError: the file is missing, damaged or no .pt2, or loading it could run code.
    """
    _refuse_what_is_no_archive(source)
    where = str(source)
    if not options.trusted:
        _refuse_code(source)
    try:
        if options.trusted:
            program = torch.export.load(where)
        else:
            with _restricted_unpickling():
                program = load_pt2(where).exported_programs["model"]
    except Exception as error:
        # The deserialiser raises whatever an unfitting file leads to, from AssertionError to UnpicklingError.
        raise InputError(where, f"PyTorch {torch.__version__} cannot load it: {_one_line(error)}", _SAVE) from error
    _forget_derived_ranges(program)
    return program


def inspect(source: Path) -> Signature:
    """The model's inputs and outputs, for a first look; never runs code from the file.

    Raises:
        InputError: as ``load``.
    """
    return torch_program.signature(str(source), load(source, ImportOptions(source=str(source), format="pt2")))


def _refuse_what_is_no_archive(source: Path) -> None:
    where = str(source)
    if source.is_dir():
        raise InputError(where, "is a directory", "name the .pt2 file")
    try:
        with source.open("rb") as file:
            start = file.read(4)
    except FileNotFoundError as error:
        raise InputError(
            where, "no such file", "check the path; relative ones start at the working directory"
        ) from error
    except OSError as error:
        raise InputError(where, f"cannot be read: {error.strerror}") from error
    if not start:
        raise InputError(where, "is empty", _COPY)
    if not zipfile.is_zipfile(source):
        problem = "is truncated" if start == b"PK\x03\x04" else "is not a .pt2 archive"
        raise InputError(where, problem, _COPY if start == b"PK\x03\x04" else _SAVE)
    try:
        with zipfile.ZipFile(source) as archive:
            damaged = archive.testzip()
            names = {name.partition("/")[2] for name in archive.namelist()}
    except (zipfile.BadZipFile, EOFError, NotImplementedError, OSError, RuntimeError, ValueError) as error:
        raise InputError(where, f"is a damaged archive: {error}", _COPY) from error
    if damaged:
        raise InputError(where, f"is damaged: the checksum of {damaged} does not match", _COPY)
    if "constants.pkl" in names:
        raise InputError(where, "is a TorchScript archive, not an exported program", _SAVE)
    if "data.pkl" in names:
        raise InputError(where, "holds pickled objects (torch.save), not an exported program", _SAVE)


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
    except (AssertionError, AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(where, f"is not a .pt2 of PyTorch 2.8 or later: {_one_line(error)}", _SAVE) from error


@contextmanager
def _restricted_unpickling() -> Iterator[None]:
    """Make every ``torch.load`` use the restricted unpickler, also where the deserialiser asks for the full one."""
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


def _forget_derived_ranges(program: ExportedProgram) -> None:
    """Let programs with derived extents (``2*batch``) be decomposed.

    PyTorch 2.13 restores the ranges of such expressions as if they were symbols, and then fails on them in
    run_decompositions with "expected sympy.Symbol". Their symbols' own ranges say the same.
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
