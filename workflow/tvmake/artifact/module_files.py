"""A Relax module on disk: ``*.json``; :mod:`tvmake.artifact.weights` has its parameters.

The module is TVM's own JSON with parameters detached: byte-stable, quick to load, and loading it executes nothing
(TVMScript would be executed, and pickles too).
"""

from pathlib import Path

import tvm

from tvmake.artifact.empty_tensors import spell_out_empty
from tvmake.artifact.stage_json import GONE
from tvmake.errors import InputError
from tvmake.storage.files import write_bytes


def save_module(module: "tvm.IRModule", destination: Path) -> None:
    """Write a module, atomically."""
    write_bytes(destination, format_module(module).encode())


def load_module(source: Path) -> "tvm.IRModule":
    """Read a module written by :func:`save_module`.

    Raises:
        InputError: the file is missing or damaged.
    """
    try:
        text = source.read_text()
    except FileNotFoundError:
        raise InputError(str(source), "no such module file", GONE) from None
    except (OSError, UnicodeDecodeError):
        raise _damage_error(str(source)) from None
    return parse_module(text, str(source))


def format_module(module: "tvm.IRModule") -> str:
    """A module as JSON."""
    return str(tvm.ir.save_json(spell_out_empty(module)))


def parse_module(text: str, where: str) -> "tvm.IRModule":
    """A module that :func:`format_module` wrote.

    Raises:
        InputError: it is damaged.
    """
    try:
        module = tvm.ir.load_json(text)
    except Exception:  # noqa: BLE001  # TVM does not validate files, and may fail in any way
        raise _damage_error(where) from None
    if not isinstance(module, tvm.IRModule):
        raise InputError(where, f"contains a {type(module).__name__}, not a module", "delete it and run again")
    return module


def _damage_error(where: str) -> InputError:
    return InputError(where, "not a module file, or damaged", "delete it and run again")
