"""What a model that tvmake does not read, or not under its name, is, and what to do about it."""

import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

from tvmake.config.model import EXPORT, FORMATS, OTHER_FORMATS

Archive = Literal["keras", "torchscript", "checkpoint", "pt2"]

ARCHIVES: Mapping[Archive | None, tuple[str, str]] = {
    "keras": ("a Keras model", "rename it to .keras, or set `format: keras`"),
    "torchscript": ("a TorchScript archive", f"TorchScript is not read; {EXPORT}"),
    "checkpoint": ("a file of torch.save, with weights and no network", EXPORT),
    "pt2": ("a program that PyTorch exported", "rename it to .pt2, or set `format: pt2`"),
    None: ("a zip archive, and of no kind that is known", "unpack it, and name the model's file"),
}
"""Zip archives of models: what they are, and what to do where another kind is expected."""

DAMAGES = (zipfile.BadZipFile, EOFError, NotImplementedError, OSError, RuntimeError, ValueError)
"""What reading a damaged archive raises."""

SAVED_MODEL = "a SavedModel of TensorFlow is not read; make it ONNX: python -m tf2onnx.convert --saved-model {} --output model.onnx"


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


def how_to_name(source: str) -> str:
    """What to do about a source whose name tells no format."""
    path = Path(source)
    if remedy := how_to_write(source):
        return remedy
    if (path / "saved_model.pb").is_file():
        return SAVED_MODEL.format(source)
    if path.is_dir():
        return "it is a directory; name the model's file"
    if not path.exists() and (
        named := next(
            (path.with_name(path.name + end) for end in FORMATS if path.with_name(path.name + end).is_file()), None
        )
    ):
        return f"there is no such file; did you mean '{named}'?"
    if path.suffix.lower() in (".pt", ".pth", ".zip") and zipfile.is_zipfile(path):
        with suppress(*DAMAGES):
            what, remedy = ARCHIVES[archive_kind(path)]
            return f"it is {what}; {remedy}"
    expected = f"expected {', '.join(FORMATS)}, package.module:function, or zoo:<name> (or set `format:` in the config)"
    return OTHER_FORMATS.get(path.suffix.lower(), expected)


def how_to_write(path: str) -> str | None:
    """What to write instead of what only a shell or a download replaces; None where there is nothing of it."""
    if path.startswith("~"):
        return "~ is a shell's word for a home directory; write the whole path"
    if "$" in path:
        return "variables of the environment are not replaced; write the whole path"
    if "://" in path:
        return "only files are read; download it and name the file"
    if any(sign in path for sign in "*?["):
        return "patterns are not expanded; name one file, and each further model under a name of its own"
    return None
