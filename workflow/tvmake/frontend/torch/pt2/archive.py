"""PyTorch's ``.pt2`` files: load what ``torch.export.save`` wrote, without running code that the file brings along."""

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
import torch.ao.quantization.fx._decomposed  # registers the operators of quantised networks, which files name
from torch.export import ExportedProgram
from torch.export.pt2_archive._package import PT2ArchiveReader, load_pt2

from tvmake.artifact.signature import Signature
from tvmake.errors import InputError
from tvmake.frontend.file_kinds import ARCHIVES, DAMAGES, archive_kind
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.source_file import COPY, open_source
from tvmake.frontend.torch import program as exported
from tvmake.frontend.torch import refusals
from tvmake.frontend.torch.exporting.output_structure import leave_out_none
from tvmake.frontend.torch.pt2 import containers, versions
from tvmake.frontend.torch.pt2 import safety as pt2_safety

_SAVE = "write it with torch.export.save(torch.export.export(module.eval(), inputs), 'model.pt2')"


def load(source: Path, options: ImportOptions) -> ExportedProgram:
    """Load an exported program.

    Unless ``options.trusted``, the archive may hold tensors and a graph only (see ``safety``), pickled members
    are read with PyTorch's restricted unpickler, and the formats of PyTorch before 2.8 are refused.

    Raises:
        InputError: the file is missing, damaged or no .pt2, or loading it could run code.
    """
    _check_archive(source)
    where = str(source)
    if not options.trusted:
        _refuse_code(source)
    try:
        _read_containers_plainly(source)
        if options.trusted:
            program = torch.export.load(where)
        else:
            with _restricted_unpickling():
                program = load_pt2(where).exported_programs["model"]
    except Exception as error:
        # The deserialiser raises whatever an unfitting file leads to, from AssertionError to UnpicklingError.
        if (version := versions.other_writer(source)) is not None:
            problem = f"PyTorch {version} wrote it, and the one installed, {torch.__version__}, cannot load it: {_one_line(error)}"
            raise InputError(where, problem, versions.export_again()) from error
        if (kind := _kind_of_example_inputs(source)) is not None:
            problem = f"holds example inputs in objects of '{kind}', which are not read"
            raise InputError(where, problem, "before torch.export.save, say program.example_inputs = None") from error
        raise InputError(where, f"PyTorch {torch.__version__} cannot load it: {_one_line(error)}", _SAVE) from error
    _forget_derived_ranges(program)
    containers.make_plain(program)
    leave_out_none(program)
    return program


def inspect(source: Path) -> Signature:
    """The model's inputs and outputs, for a first look; never runs code from the file.

    Raises:
        InputError: as ``load``, and for what no import takes.
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
            if not _is_stored(archive, source):
                raise InputError(where, "is not as PyTorch writes it: its members are compressed or overlap", _SAVE)
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
        raise InputError(where, problem, versions.export_again()) from error


def _read_containers_plainly(source: Path) -> None:
    with PT2ArchiveReader(str(source)) as archive:
        if "models/model.json" in archive.get_file_names():
            for spec in containers.specs(json.loads(archive.read_bytes("models/model.json"))):
                containers.read_plainly(spec)


def _kind_of_example_inputs(source: Path) -> str | None:
    """The class of a library's own in which the example inputs are stored, if there is one."""
    try:
        with PT2ArchiveReader(str(source)) as archive:
            torch.load(io.BytesIO(archive.read_bytes("data/sample_inputs/model.pt")), weights_only=True)
    except pickle.UnpicklingError as error:
        found = re.search(r"Unsupported global: GLOBAL (\S+)", str(error))
        return found and found[1]
    except (AttributeError, EOFError, LookupError, OSError, RuntimeError, TypeError, ValueError):
        return None  # damaged in another way, or without examples
    return None


def _is_stored(archive: zipfile.ZipFile, source: Path) -> bool:
    """Whether the members are there as they are: what is compressed can be a thousand times its size."""
    members = archive.infolist()
    sizes = sum(member.file_size for member in members)
    return sizes <= source.stat().st_size and all(
        member.compress_type == zipfile.ZIP_STORED and member.file_size == member.compress_size for member in members
    )


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
