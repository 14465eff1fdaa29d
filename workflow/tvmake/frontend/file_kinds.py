"""Recognise model files that tvmake does not read, or whose name has the wrong suffix, and suggest a remedy."""

import difflib
import os
import re
import sys
import unicodedata
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Literal

from tvmake.frontend.options import EXPORT, FORMATS, OTHER_FORMATS
from tvmake.storage.placeholders import PLACEHOLDERS
from tvmake.storage.plain_files import broken_link

Archive = Literal["keras", "torchscript", "checkpoint", "pt2"]

ARCHIVES: Mapping[Archive | None, tuple[str, str]] = {
    "keras": ("a Keras model", "rename it to .keras"),
    "torchscript": ("a TorchScript archive", "rename it to .pt, or set `format: torchscript`"),
    "checkpoint": ("a file of torch.save, with weights and without the network's code", EXPORT),
    "pt2": ("a program that PyTorch exported", "rename it to .pt2, or set `format: pt2`"),
    None: ("a zip archive of an unknown kind", "unpack it, and name the model's file"),
}
"""Kinds of zip archives: a description, and the remedy if another kind is expected."""

ZIP = b"PK\x03\x04"

FILE_HEADS: tuple[tuple[bytes, tuple[str, ...], str, str], ...] = (
    (rb"....TFL3", (".tflite",), "a TFLite model", "rename it to .tflite, or set `format: tflite`"),
    # The format's version, then the producer, the graph, or the opsets.
    (rb"\x08[\x03-\x1f][\x12\x3a\x42]", (".onnx",), "an ONNX model", "rename it to .onnx, or set `format: onnx`"),
    (re.escape(ZIP), (".pt2", ".keras", ".pt"), "a damaged zip archive", "copy or download the file again"),
    (rb"\x89HDF\r\n", (".h5",), "an HDF5 file, as Keras writes them", "rename it to .h5"),
    *((pattern, (), kind, remedy) for pattern, kind, remedy in PLACEHOLDERS),
)
"""Regular expressions of files' first bytes, with suffixes, a description, and the remedy if another kind is expected."""

HEAD_BYTES = 32

DAMAGES = (zipfile.BadZipFile, EOFError, NotImplementedError, OSError, RuntimeError, ValueError)
"""Exceptions that reading a damaged archive raises."""

SAVED_MODEL = "a SavedModel of TensorFlow is not read; make it ONNX: python -m tf2onnx.convert --saved-model {} --output model.onnx"


TRANSFORMERS = (
    "a folder of transformers has weights without the network's code; load it with AutoModel.from_pretrained('{}')"
    " (or the class of its task), and " + EXPORT
)


def archive_kind(source: Path | BinaryIO) -> Archive | None:
    """The kind of a zip archive, by the names of its members; None if unknown.

    Raises:
        zipfile.BadZipFile, …: it is damaged, or cannot be read (see ``DAMAGES``).
    """
    with zipfile.ZipFile(source) as archive:
        names = archive.namelist()
    relative = {name.partition("/")[2] for name in names}
    if {"config.json", "model.weights.h5"} <= set(names):
        return "keras"
    if "constants.pkl" in relative or any(name.startswith("code/") for name in relative):
        return "torchscript"
    if "data.pkl" in relative:
        return "checkpoint"
    return "pt2" if any(name.startswith("models/") for name in relative) else None


def recognise_file(source: Path, head: bytes, suffix: str = "") -> tuple[str, str] | None:
    """The kind of a file that is not of the expected kind, and a remedy; None if it is of that kind or unknown.

    Args:
        head: its first ``HEAD_BYTES`` bytes.
        suffix: of files of the expected kind.
    """
    for pattern, suffixes, kind, remedy in FILE_HEADS:
        if suffix not in suffixes and re.match(pattern, head, re.DOTALL):
            if head.startswith(ZIP):
                with suppress(*DAMAGES):
                    return ARCHIVES[archive_kind(source)]
            return kind, remedy
    return None


def format_remedy(source: str) -> str:
    """The remedy for a source whose name implies no format."""
    path = Path(source)
    if remedy := path_remedy(source):
        return remedy
    of_suffix = OTHER_FORMATS.get(path.suffix.lower())
    if problem := broken_link(path):
        return f"it {problem}; correct the link, or name the file"
    if path.suffix == ".py":
        return f"it is Python code; name a function in it that returns the model, as in {path.stem}:FUNCTION"
    if path.is_dir():
        return directory_remedy(source) or of_suffix or "it is a directory; name the model's file"
    if not path.exists() and (
        candidate := next(
            (path.with_name(path.name + end) for end in FORMATS if path.with_name(path.name + end).is_file()), None
        )
    ):
        return f"there is no such file; did you mean '{candidate}'?"
    if path.is_file():
        with suppress(OSError):
            with path.open("rb") as file:
                head = file.read(HEAD_BYTES)
            if not head:
                return "it is empty; copy or download the file again"
            if recognised := recognise_file(path, head):
                return f"it is {'; '.join(recognised)}"
    if re.fullmatch(r"[\w.-]+/[\w.-]+", source) and not path.parent.exists() and not path.suffix[1:].isalpha():
        return "there is no such file; for a model of a hub, name a function that returns it (package.module:function)"
    expected = (
        f"expected {', '.join(FORMATS)}, package.module:function, or zoo:<name> (or set `format: FORMAT`);"
        " if the file was converted for another program, give the model that it was converted from"
    )
    return of_suffix or expected


def directory_remedy(directory: str) -> str | None:
    """The remedy for a directory that is a model of another tool; None if it is not recognised."""
    path = Path(directory)
    if (path / "saved_model.pb").is_file():
        return SAVED_MODEL.format(directory)
    weights = (*path.glob("*.safetensors"), *path.glob("pytorch_model*.bin"))
    if (path / "config.json").is_file() and weights:
        return TRANSFORMERS.format(directory)
    return None


def missing_file_remedy(file: str, root: Path | None = None) -> str | None:
    """The remedy for a file that does not exist; None if no similar name exists.

    Args:
        root: the directory that relative paths start at; by default the working directory.
    """
    if remedy := path_remedy(file):
        return remedy
    parent = Path(file).parent
    directory = root / parent if root else parent
    if Path(file).name == "py.py" and directory.with_suffix(".py").is_file():
        return f"a function of {parent}.py is named without .py: {'.'.join(parent.parts)}:FUNCTION"
    if not file.isascii() and sys.getfilesystemencoding() != "utf-8":
        return f"names of files are read as {sys.getfilesystemencoding()} here: set LC_ALL=C.UTF-8"
    siblings = [str(parent / name) for name in os.listdir(directory)] if directory.is_dir() else []  # noqa: PTH208
    for name in siblings:
        if unicodedata.normalize("NFC", name) == unicodedata.normalize("NFC", str(Path(file))):
            return f'its name there has other Unicode characters that look the same; write "{ascii(name)[1:-1]}"'
    path = str(Path(file))
    same = [name for name in siblings if name.casefold() == path.casefold()]
    close = same or difflib.get_close_matches(path, siblings, n=1, cutoff=0.8)
    return f"did you mean '{close[0]}'?" if close else None


def path_remedy(path: str) -> str | None:
    """The remedy for a path that only a shell or a download would resolve; None for a plain path."""
    if path.startswith("~"):
        return "~ is a shell's word for a home directory; write the whole path"
    if "$" in path:
        return "variables of the environment are not replaced; write the whole path"
    if re.match(r"\w[\w+.-]+:/", path):
        return "only files are read; download it and name the file"
    if any(character in path for character in "*?["):
        return "patterns are not expanded; name one file, and each further model under a name of its own"
    return None
