"""Grouped matmuls, as in mixtures of experts: each row is multiplied by the matrix of its group.

How many rows a group has depends on the data; what is computed here has a fixed shape all the same.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram

from tvmake.frontend.torch import program as exported


def _grouped_products(rows: Tensor, matrices: Tensor, ends: Tensor) -> Tensor:
    """Each row times its group's matrix.

    Args:
        rows: ``[rows, from]``, those of a group after each other; what follows the last group becomes zero.
        matrices: ``[groups, from, to]``.
        ends: where each group ends.
    """
    count, groups = rows.shape[0], matrices.shape[0]
    group = (ends.unsqueeze(0) <= torch.arange(count).unsqueeze(1)).to(torch.int64).sum(1)
    if isinstance(count, int) and count < groups:
        found = (rows.unsqueeze(1) @ matrices[group.clamp(max=groups - 1)]).squeeze(1)
        return torch.where((group < groups).unsqueeze(1), found, 0.0)
    is_of = torch.arange(groups).reshape(-1, 1, 1) == group.reshape(1, -1, 1)
    return torch.where(is_of, rows.unsqueeze(0) @ matrices, 0.0).sum(0)


OF_LIBRARIES: Mapping[str, Callable[..., Any]] = {"transformers.grouped_mm_fallback.default": _grouped_products}
"""Operators that libraries define, and that exist only where those are loaded."""


def of_libraries(program: ExportedProgram) -> dict[torch._ops.OpOverload, Callable[..., Any]]:
    """What takes a program's operators apart that are a library's."""
    found = {node.target for node in exported.calls(program) if isinstance(node.target, torch._ops.OpOverload)}
    return {operator: OF_LIBRARIES[str(operator)] for operator in found if str(operator) in OF_LIBRARIES}
