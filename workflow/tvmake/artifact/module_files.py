"""A Relax module and its parameters on disk: ``*.json`` and ``*.params``.

The module is TVM's own JSON with parameters detached: byte-stable, quick to load, and loading it executes nothing
(TVMScript would be executed, and pickles too). Parameters are a TVM parameter dict in argument order.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from tvmake.artifact.empty_tensors import spell_out_empty
from tvmake.artifact.stage_json import GONE
from tvmake.errors import InputError
from tvmake.storage.files import write_bytes


def save_module(module: "tvm.IRModule", destination: Path) -> None:
    """Write a module, atomically."""
    write_bytes(destination, tvm.ir.save_json(spell_out_empty(module)).encode())


def load_module(source: Path) -> "tvm.IRModule":
    """Read a module written by :func:`save_module`.

    Raises:
        InputError: the file is missing or damaged.
    """
    try:
        module = tvm.ir.load_json(source.read_text())
    except FileNotFoundError:
        raise InputError(str(source), "no such module file", GONE) from None
    except Exception:  # noqa: BLE001  # TVM does not validate files, and may fail in any way
        raise InputError(str(source), "not a module file, or damaged", "delete it and run again") from None
    if not isinstance(module, tvm.IRModule):
        raise InputError(str(source), f"contains a {type(module).__name__}, not a module", "delete it and run again")
    return module


def save_params(params: Mapping[str, Any], destination: Path) -> None:
    """Write parameters (numpy arrays or TVM tensors), in the mapping's order, atomically."""
    tensors = {
        name: tvm.runtime.tensor(value) if isinstance(value, np.ndarray) else value for name, value in params.items()
    }
    # Not save_param_dict_to_file: it does not notice when the last block finds the disk full.
    write_bytes(destination, tvm.runtime.save_param_dict(tensors))


def load_params(source: Path) -> dict[str, Any]:
    """Read parameters written by :func:`save_params`, in order, as TVM tensors.

    Raises:
        InputError: the file is missing or damaged.
    """
    if not source.is_file():
        raise InputError(str(source), "no such parameter file", GONE)
    try:
        return dict(tvm.runtime.load_param_dict_from_file(str(source)))
    except Exception:  # noqa: BLE001  # as above
        raise InputError(str(source), "not a parameter file, or damaged", "delete it and run again") from None
