"""Views of a tensor's bits in another type of the same width."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx

from tvmake.frontend.lowering.bitcast import bitcast

aten = torch.ops.aten


def _seen_as(node: fx.Node, importer: Any) -> Any:
    """A view in another type.

    Raises:
        ValueError: of another width.
    """
    before, after = (one.meta["val"].dtype for one in (node.args[0], node))
    if before.itemsize != after.itemsize or torch.bool in (before, after):
        raise ValueError(f"a view of {before} as {after}, which is of another width")
    dtype = str(after).removeprefix("torch.")
    return bitcast(importer.block_builder, importer.env[node.args[0]], dtype, kernel="compute")


CONVERTERS: Mapping[str, Callable[[fx.Node, Any], Any]] = {"view.dtype": _seen_as}
"""By the operator's name."""
