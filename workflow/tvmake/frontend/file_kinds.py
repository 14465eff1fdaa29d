"""What a model that tvmake does not read, or not under its name, is, and what to do about it."""

import difflib
import os
import re
import sys
import unicodedata
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

from tvmake.frontend.options import EXPORT, FORMATS, OTHER_FORMATS
from tvmake.storage.placeholders import PLACEHOLDERS
from tvmake.storage.plain_files import broken_link

Archive = Literal["keras", "torchscript", "checkpoint", "pt2"]

ARCHIVES: Mapping[Archive | None, tuple[str, str]] = {
    "keras": ("a Keras model", "rename it to .keras"),
    "torchscript": ("a TorchScript archive", f"TorchScript is not read; {EXPORT}"),
    "checkpoint": ("a file of torch.save, with weights and without the network's code", EXPORT),
    "pt2": ("a program that PyTorch exported", "rename it to .pt2, or set `format: pt2`"),
    None: ("a zip archive, and of no kind that is known", "unpack it, and name the model's file"),
}
"""Zip archives of models: what they are, and what to do where another kind is expected."""

ZIP = b"PK\x03\x04"

SIGNS: tuple[tuple[bytes, tuple[str, ...], str, str], ...] = (
    (rb"....TFL3", (".tflite",), "a TFLite model", "rename it to .tflite, or set `format: tflite`"),
    # The version of its format, then who wrote it, the graph, or its opsets.
    (rb"\x08[\x03-\x1f][\x12\x3a\x42]", (".onnx",), "an ONNX model", "rename it to .onnx, or set `format: onnx`"),
    (re.escape(ZIP), (".pt2", ".keras"), "a damaged zip archive", "copy or download the file again"),
    (rb"\x89HDF\r\n", (".h5",), "an HDF5 file, as Keras writes them", "rename it to .h5"),
    *((sign, (), what, remedy) for sign, what, remedy in PLACEHOLDERS),
)
"""How files begin, as a regular expression; the suffixes of such files, what it is, and what to do where another kind is expected."""

LONGEST_SIGN = 32

DAMAGES = (zipfile.BadZipFile, EOFError, NotImplementedError, OSError, RuntimeError, ValueError)
"""What reading a damaged archive raises."""

SAVED_MODEL = "a SavedModel of TensorFlow is not read; make it ONNX: python -m tf2onnx.convert --saved-model {} --output model.onnx"


TRANSFORMERS = (
    "a folder of transformers has weights without the network's code; load it with AutoModel.from_pretrained('{}')"
    " (or the class of its task), and " + EXPORT
)


def archive_kind(source: Path) -> Archive | None:
    """What a zip archive holds, by the names of its members; None for anything else.

    Raises:
        zipfile.BadZipFile, …: it is damaged, or cannot be read (see ``DAMAGES``).
    """
    with zipfile.ZipFile(source) as archive:
        names = archive.namelist()
    within = {name.partition("/")[2] for name in names}
    if {"config.json", "model.weights.h5"} <= set(names):
        return "keras"
    if "constants.pkl" in within or any(name.startswith("code/") for name in within):
        return "torchscript"
    if "data.pkl" in within:
        return "checkpoint"
    return "pt2" if any(name.startswith("models/") for name in within) else None


def sign_of(source: Path, head: bytes, suffix: str = "") -> tuple[str, str] | None:
    """What a file that does not begin as its kind is, and what to do about it; None where nothing tells.

    Args:
        head: its first ``LONGEST_SIGN`` bytes.
        suffix: of the files of the expected kind.
    """
    for sign, suffixes, what, remedy in SIGNS:
        if suffix not in suffixes and re.match(sign, head, re.DOTALL):
            if head.startswith(ZIP):
                with suppress(*DAMAGES):
                    return ARCHIVES[archive_kind(source)]
            return what, remedy
    return None


def how_to_name(source: str) -> str:
    """What to do about a source whose name tells no format."""
    path = Path(source)
    if remedy := how_to_write(source):
        return remedy
    of_suffix = OTHER_FORMATS.get(path.suffix.lower())
    if problem := broken_link(path):
        return f"it {problem}; correct the link, or name the file"
    if path.suffix == ".py":
        return f"it is Python code; name a function in it that returns the model, as in {path.stem}:FUNCTION"
    if path.is_dir():
        return how_to_name_within(source) or of_suffix or "it is a directory; name the model's file"
    if not path.exists() and (
        named := next(
            (path.with_name(path.name + end) for end in FORMATS if path.with_name(path.name + end).is_file()), None
        )
    ):
        return f"there is no such file; did you mean '{named}'?"
    if path.is_file():
        with suppress(OSError):
            with path.open("rb") as file:
                head = file.read(LONGEST_SIGN)
            if not head:
                return "it is empty; copy or download the file again"
            if sign := sign_of(path, head):
                return f"it is {'; '.join(sign)}"
    if re.fullmatch(r"[\w.-]+/[\w.-]+", source) and not path.parent.exists() and not path.suffix[1:].isalpha():
        return "there is no such file; of a model of a hub, name a function that returns it (package.module:function)"
    expected = (
        f"expected {', '.join(FORMATS)}, package.module:function, or zoo:<name> (or set `format:` in the config);"
        " of a file that was made for another program, give the model that it was made from"
    )
    return of_suffix or expected


def how_to_name_within(directory: str) -> str | None:
    """What to do about a directory whose files make a model together; None where there is none that is known."""
    path = Path(directory)
    if (path / "saved_model.pb").is_file():
        return SAVED_MODEL.format(directory)
    weights = (*path.glob("*.safetensors"), *path.glob("pytorch_model*.bin"))
    if (path / "config.json").is_file() and weights:
        return TRANSFORMERS.format(directory)
    return None


def how_to_name_file(file: str, root: Path | None = None) -> str | None:
    """What to do about a file that is not there; None where nothing shows what was meant.

    Args:
        root: where relative paths begin, if not here.
    """
    if remedy := how_to_write(file):
        return remedy
    place = Path(file).parent
    directory = root / place if root else place
    if Path(file).name == "py.py" and directory.with_suffix(".py").is_file():
        return f"a function of {place}.py is named without .py: {'.'.join(place.parts)}:FUNCTION"
    if not file.isascii() and sys.getfilesystemencoding() != "utf-8":
        return f"names of files are read as {sys.getfilesystemencoding()} here: set LC_ALL=C.UTF-8"
    near = [str(place / name) for name in os.listdir(directory)] if directory.is_dir() else []  # noqa: PTH208
    for name in near:
        if unicodedata.normalize("NFC", name) == unicodedata.normalize("NFC", str(Path(file))):
            return f'its name there has other Unicode characters that look the same; write "{ascii(name)[1:-1]}"'
    meant = str(Path(file))
    same = [name for name in near if name.casefold() == meant.casefold()]
    close = same or difflib.get_close_matches(meant, near, n=1, cutoff=0.8)
    return f"did you mean '{close[0]}'?" if close else None


def how_to_write(path: str) -> str | None:
    """What to write instead of what only a shell or a download replaces; None where there is nothing of it."""
    if path.startswith("~"):
        return "~ is a shell's word for a home directory; write the whole path"
    if "$" in path:
        return "variables of the environment are not replaced; write the whole path"
    if re.match(r"\w[\w+.-]+:/", path):
        return "only files are read; download it and name the file"
    if any(sign in path for sign in "*?["):
        return "patterns are not expanded; name one file, and each further model under a name of its own"
    return None
