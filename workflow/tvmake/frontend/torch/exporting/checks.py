"""What PyTorch looks up in values before it computes with them, which torch.export cannot follow and no result depends on.

``torch.distributions`` checks its parameters and what it is given; a compiled network could raise no error about them.
``nn.Transformer`` looks whether a mask is the causal one, to choose an attention that needs no mask and computes the same.
Libraries assert that values are what they expect.
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
"""Arguments for which None means to look at the mask, and their positions."""


def _covariance(data: Tensor, *, correction: int = 1, **weights: Tensor) -> Any:
    if weights:
        return NotImplemented
    rows = data.unsqueeze(0) if data.ndim < 2 else data
    centred = rows - rows.mean(1, keepdim=True)
    found = centred @ centred.mT / max(rows.shape[1] - correction, 0)
    return found if data.ndim == 2 else found.squeeze()


def _correlation(data: Tensor) -> Tensor:
    found = _covariance(data)
    if data.ndim < 2:
        return found / found
    scale = found.diagonal().sqrt()
    return (found / scale.unsqueeze(1) / scale).clamp(-1, 1)


WITHOUT_LOOKUPS: Mapping[Any, Callable[..., Any]] = {
    torch.cov: _covariance, Tensor.cov: _covariance, torch.corrcoef: _correlation, Tensor.corrcoef: _correlation,
}  # fmt: skip
"""Functions in which PyTorch compares weights that were not given, and what computes the same; NotImplemented where some were."""


@contextmanager
def left_out(module: nn.Module) -> Iterator[None]:
    """Nothing is looked up in values meanwhile, wherever a user has not asked for it.

    Args:
        module: that is traced.
    """
    was_validated = Distribution._validate_args
    with ExitStack() as stack:
        for part in module.modules():
            hint = next((name for kind, name in CAUSAL_HINTS.items() if isinstance(part, kind)), None)
            if hint is not None:
                handle = part.register_forward_pre_hook(_with_mask_as_given(*hint), with_kwargs=True)
                stack.callback(handle.remove)
        Distribution.set_default_validate_args(False)
        stack.callback(Distribution.set_default_validate_args, was_validated)
        yield


def _with_mask_as_given(name: str, position: int) -> Any:
    def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]] | None:
        if kwargs.get(name) is not None or len(args) > position:
            return None
        return args, {**kwargs, name: False}

    return hook


def is_assertion(error: Exception) -> bool:
    """Whether an error comes from an assertion, outside of PyTorch, of a tensor's values."""
    places = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    last = [place for place in places if not place[0].startswith((TORCH, HERE))][-1:]
    return any(_assertion(*place) for place in last)


def asserted() -> bool | None:
    """The truth value that the statement which asks for it asserts; None where it asserts nothing, or a longer formula."""
    frame: FrameType | None = sys._getframe(2)  # what called PyTorch, which called this function's caller
    while frame is not None and frame.f_code.co_filename.startswith(TORCH):
        frame = frame.f_back
    test = None if frame is None else _assertion(frame.f_code.co_filename, frame.f_lineno)
    if test is None:
        return None
    negations = [one for one in ast.walk(test) if isinstance(one, ast.UnaryOp) and isinstance(one.op, ast.Not)]
    if not negations:
        return True
    return False if negations == [test] else None


@cache
def _assertion(filename: str, line: int) -> ast.expr | None:
    """What is asserted at a line of a file."""
    try:
        tree = ast.parse("".join(linecache.getlines(filename)))
    except SyntaxError:
        return None
    assertions = (node for node in ast.walk(tree) if isinstance(node, ast.Assert))
    return next((one.test for one in assertions if one.lineno <= line <= (one.end_lineno or one.lineno)), None)
