"""The weights of a package, computed from a network's parameters as its build describes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tvmake.artifact import stage_json
from tvmake.artifact.manifest import FileEntry
from tvmake.artifact.weights.packings import WeightPackings
from tvmake.storage.files import DigestSink, digest_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from tvmake.storage.files import Sink


def weights_writer(packing: Path, params: Path) -> Callable[[Sink], None] | None:
    """Return what writes mod.params, one weight at a time; None if it has the parameters unchanged.

    Args:
        packing: a build's packing.json.
        params: the parameters of its network.

    Raises:
        InputError: a file is missing or damaged.
    """
    described = stage_json.load(WeightPackings, packing)
    if not described.runs:
        return None
    from tvmake.artifact.weights.tensors import load_params, write_params
    from tvmake.codegen.weights import described_weights

    return partial(write_params, described_weights(load_params(params), described, str(packing)))


def describe_weights(packing: Path, params: Path) -> FileEntry:
    """Size and digest of mod.params, which is not written.

    Raises:
        InputError: as for :func:`weights_writer`.
    """
    write = weights_writer(packing, params)
    if write is None:
        return FileEntry(sha256=digest_file(params), size=params.stat().st_size)
    sink = DigestSink()
    write(sink)
    return FileEntry(sha256=sink.hexdigest(), size=sink.tell())
