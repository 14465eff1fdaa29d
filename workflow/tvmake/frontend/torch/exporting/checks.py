"""Skip checks of tensor values during export: torch.export cannot trace them, and no result depends on them.

``torch.distributions`` validates its parameters and arguments; a compiled network cannot raise such errors.
``nn.Transformer`` tests whether a mask is causal, to choose an equivalent attention without a mask.
Libraries assert properties of values.
"""

import ast
import linecache
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Distribution

TORCH, HERE = str(Path(torch.__file__).parent), str(Path(__file__).parents[1])

CAUSAL_HINTS = {nn.TransformerEncoder: ("is_causal", 3), nn.TransformerDecoder: ("tgt_is_causal", 6)}
"""Arguments for which None means to test the mask, and their positions."""


def _covariance(data: Tensor, *, correction: int = 1, **weights: Tensor) -> Any:
    if weights:
        return NotImplemented
    rows = data.unsqueeze(0) if data.ndim < 2 else data
    centred = rows - rows.mean(1, keepdim=True)
    covariance = centred @ centred.mT / max(rows.shape[1] - correction, 0)
    return covariance if data.ndim == 2 else covariance.squeeze()


def _correlation(data: Tensor) -> Tensor:
    covariance = _covariance(data)
    if data.ndim < 2:
        return covariance / covariance
    scale = covariance.diagonal().sqrt()
    return (covariance / scale.unsqueeze(1) / scale).clamp(-1, 1)


EQUIVALENTS: Mapping[Any, Callable[..., Any]] = {
    torch.cov: _covariance, Tensor.cov: _covariance, torch.corrcoef: _correlation, Tensor.corrcoef: _correlation,
}  # fmt: skip
"""Equivalents of functions in which PyTorch compares weights that are absent. NotImplemented if weights are passed."""


@contextmanager
def skip_value_checks(module: nn.Module) -> Iterator[None]:
    """Skip checks of tensor values in this context, unless the user has requested them.

    Args:
        module: the module to trace.
    """
    was_validated = Distribution._validate_args
    with ExitStack() as stack:
        for part in module.modules():
            hint = next((name for kind, name in CAUSAL_HINTS.items() if isinstance(part, kind)), None)
            if hint is not None:
                handle = part.register_forward_pre_hook(_disable_mask_test(*hint), with_kwargs=True)
                stack.callback(handle.remove)
        Distribution.set_default_validate_args(False)
        stack.callback(Distribution.set_default_validate_args, was_validated)
        yield


def _disable_mask_test(name: str, position: int) -> Any:
    def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]] | None:
        if kwargs.get(name) is not None or len(args) > position:
            return None
        return args, {**kwargs, name: False}

    return hook


def is_assertion(error: Exception) -> bool:
    """Whether an error comes from an assertion on a tensor's values outside of PyTorch."""
    locations = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    last = [location for location in locations if not location[0].startswith((TORCH, HERE))][-1:]
    return any(_assertion(*location) for location in last)


def asserted_boolean() -> bool | None:
    """The boolean that the calling ``assert`` expects; None if the caller is not an assertion, or its condition is too complex."""
    frame: FrameType | None = sys._getframe(2)  # the caller of PyTorch, which called this function's caller
    while frame is not None and frame.f_code.co_filename.startswith(TORCH):
        frame = frame.f_back
    test = None if frame is None else _assertion(frame.f_code.co_filename, frame.f_lineno)
    if test is None:
        return None
    negations = [node for node in ast.walk(test) if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)]
    if not negations:
        return True
    return False if negations == [test] else None


@cache
def _assertion(filename: str, line: int) -> ast.expr | None:
    """The condition of the assertion at a line of a file."""
    try:
        tree = ast.parse("".join(linecache.getlines(filename)))
    except SyntaxError:
        return None
    assertions = (node for node in ast.walk(tree) if isinstance(node, ast.Assert))
    return next((node.test for node in assertions if node.lineno <= line <= (node.end_lineno or node.lineno)), None)
