"""Decompose grouped matmuls, as in mixtures of experts: each row is multiplied by the matrix of its group.

The number of rows of a group depends on the data; the decomposition has fixed shapes.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram

from tvmake.frontend.torch import program as exported


def _grouped_matmul(rows: Tensor, matrices: Tensor, ends: Tensor) -> Tensor:
    """Multiply each row by its group's matrix.

    Args:
        rows: ``[rows, from]``, ordered by group. Rows after the last group become zero.
        matrices: ``[groups, from, to]``.
        ends: the end index of each group.
    """
    count, groups = rows.shape[0], matrices.shape[0]
    group = (ends.unsqueeze(0) <= torch.arange(count).unsqueeze(1)).to(torch.int64).sum(1)
    if isinstance(count, int) and count < groups:
        result = (rows.unsqueeze(1) @ matrices[group.clamp(max=groups - 1)]).squeeze(1)
        return torch.where((group < groups).unsqueeze(1), result, 0.0)
    is_in_group = torch.arange(groups).reshape(-1, 1, 1) == group.reshape(1, -1, 1)
    return torch.where(is_in_group, rows.unsqueeze(0) @ matrices, 0.0).sum(0)


LIBRARY_OPERATORS: Mapping[str, Callable[..., Any]] = {"transformers.grouped_mm_fallback.default": _grouped_matmul}
"""Decompositions of operators that libraries define, which exist only while these are loaded."""


def library_decompositions(program: ExportedProgram) -> dict[torch._ops.OpOverload, Callable[..., Any]]:
    """Decompositions of a library's operators in a program."""
    operators = {node.target for node in exported.calls(program) if isinstance(node.target, torch._ops.OpOverload)}
    return {operator: LIBRARY_OPERATORS[str(operator)] for operator in operators if str(operator) in LIBRARY_OPERATORS}
