"""Reinterpret a tensor's bits as another type of the same width."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx

from tvmake.frontend.lowering.bitcast import bitcast

aten = torch.ops.aten


def _view_dtype(node: fx.Node, importer: Any) -> Any:
    """Convert a view in another type.

    Raises:
        ValueError: the type has another width.
    """
    before, after = (value.meta["val"].dtype for value in (node.args[0], node))
    if before.itemsize != after.itemsize or torch.bool in (before, after):
        raise ValueError(f"a view of {before} as {after}, which has another width")
    dtype = str(after).removeprefix("torch.")
    return bitcast(importer.block_builder, importer.env[node.args[0]], dtype, kernel="compute")


CONVERTERS: Mapping[str, Callable[[fx.Node, Any], Any]] = {"view.dtype": _view_dtype}
"""By the operator's name."""
