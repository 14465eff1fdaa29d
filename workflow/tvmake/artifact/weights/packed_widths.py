"""The layout of weights that a package's build chose, for a build of another network over the same weights.

Kernels for CPUs read a weight in blocks of adjacent results. The number of these, the width, is what another kernel has to follow so
that both read the same packed bytes. This module does not need TVM.
"""

import math
import re
from pathlib import Path

from tvmake.artifact.manifest import Manifest
from tvmake.artifact.weights.contents import read_contents
from tvmake.artifact.weights.file_format import StoredTensor, stored_tensors
from tvmake.errors import InputError

PACKED = re.compile(r"(?P<source>.+)_packed\d*")
"""The name of a packed weight (:class:`tvmake.artifact.manifest.Parameter`)."""

DAMAGED = "delete it and run again"


def read_widths(owner: Manifest, owner_params: Path, params: Path) -> dict[str, int]:
    """The widths of a network's parameters that another package packed, by content: names may differ.

    Args:
        owner: the manifest of the package that chose the layout.
        owner_params: the parameters of its network, before its build packed them.
        params: the parameters of this network.

    Raises:
        InputError: a file of parameters is missing or damaged.
    """
    sources = _read_forms(owner_params)
    widths: dict[str, int] = {}
    for parameter in owner.parameters:
        match = PACKED.fullmatch(parameter.name)
        source = sources.get(match["source"]) if match else None
        if source is not None and (width := _width(source.shape, parameter.shape)) is not None:
            widths.setdefault(source.name, width)
    forms = {(sources[name].shape, sources[name].type) for name in widths}
    candidates = [tensor.name for tensor in _read_forms(params).values() if (tensor.shape, tensor.type) in forms]
    if not candidates:
        return {}
    by_content = {content: widths[name] for name, content in read_contents(owner_params, widths).items()}
    own = read_contents(params, candidates)
    return {name: by_content[content] for name, content in own.items() if content in by_content}


def _read_forms(file: Path) -> dict[str, StoredTensor]:
    try:
        return {tensor.name: tensor for tensor in stored_tensors(file)}
    except FileNotFoundError:
        raise InputError(str(file), "no such parameter file", DAMAGED) from None
    except (OSError, ValueError):
        raise InputError(str(file), "not a parameter file, or damaged", DAMAGED) from None


def _width(source: tuple[int, ...], packed: tuple[int, ...]) -> int | None:
    """The width of a packed weight: its axes are (tile, others, lane), and perhaps one more with products of one lane."""
    added = len(packed) - len(source)
    if added not in (1, 2) or not math.prod(source) <= math.prod(packed) < 2 * math.prod(source):
        return None
    return packed[-added]
