"""Tables of PyTorch's operators that are converted to Relax or decomposed by this package."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx

from tvmake.frontend.lowering.tables import merge_tables
from tvmake.frontend.torch.operators import (
    bits,
    converters,
    counting,
    decompositions,
    dimension_arithmetic,
    dynamic_axes,
    integers,
    order_statistics,
    quantized,
    sort,
    special,
)
from tvmake.frontend.torch.operators.indexing import index, scatter, slices, views
from tvmake.frontend.torch.operators.matrices import linear_algebra, matmul
from tvmake.frontend.torch.operators.spatial import dynamic_resize, pooling, resize, volumes

CONVERTERS: Mapping[str, Callable[[fx.Node, Any], Any]] = merge_tables(
    bits.CONVERTERS,
    converters.CONVERTERS,
    dimension_arithmetic.CONVERTERS,
    dynamic_axes.CONVERTERS,
    dynamic_resize.CONVERTERS,
    index.CONVERTERS,
    integers.CONVERTERS,
    matmul.CONVERTERS,
    pooling.CONVERTERS,
    quantized.CONVERTERS,
    resize.CONVERTERS,
    scatter.CONVERTERS,
    slices.CONVERTERS,
    sort.CONVERTERS,
)
"""Converters to Relax by the operator's name. TVM's importer converts all other operators."""

DECOMPOSITIONS: Mapping[torch._ops.OpOverload, Callable[..., Any]] = merge_tables(
    counting.DECOMPOSITIONS,
    decompositions.DECOMPOSITIONS,
    linear_algebra.DECOMPOSITIONS,
    order_statistics.DECOMPOSITIONS,
    special.DECOMPOSITIONS,
    views.DECOMPOSITIONS,
    volumes.DECOMPOSITIONS,
)
"""Decompositions in addition to PyTorch's own."""
