"""Functions of PyTorch by TVM's importer, compared with PyTorch."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
import tvm
from building import PLAIN
from tvm import relax
from tvm.relax.frontend.torch import from_exported_program


class Network(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def imported(function: Callable[..., Any], *inputs: torch.Tensor, dynamic: Any = None) -> tvm.IRModule:
    """A function as TVM imports it."""
    shapes = None if dynamic is None else (dynamic,)
    program = torch.export.export(Network(function), inputs, dynamic_shapes=shapes)
    return from_exported_program(program, unwrap_unit_return_tuple=True)


def problem(function: Callable[..., Any], *inputs: torch.Tensor, dynamic: Any = None) -> str:
    """What is wrong with a function that TVM has imported and built; empty if nothing is."""
    try:
        module = imported(function, *inputs, dynamic=dynamic)
        machine = relax.VirtualMachine(tvm.compile(module, target=PLAIN), tvm.cpu())
        results = machine["main"](*(tvm.runtime.tensor(value.numpy()) for value in inputs))
    except Exception as error:
        lines = str(error).strip().splitlines()
        return f"{type(error).__name__}: {lines[-1] if lines else ''}"[:300]
    expected = function(*inputs)
    pairs = zip(results, expected, strict=True) if isinstance(expected, tuple) else [(results, expected)]
    for result, right in pairs:
        if str(result.dtype) != str(right.dtype).removeprefix("torch.") or tuple(result.shape) != tuple(right.shape):
            return f"{result.dtype} {tuple(result.shape)} instead of {right.dtype} {tuple(right.shape)}"
        if not np.allclose(result.numpy(), right.numpy(), rtol=1e-4, equal_nan=True):
            return f"{result.numpy().ravel()[:4]} instead of {right.numpy().ravel()[:4]}"
    return ""


def any_problem(cases: Mapping[str, tuple[Any, ...]]) -> bool:
    """Whether anything is wrong with functions; prints the first that is found.

    Args:
        cases: by name a function and its inputs.
    """
    for name, (function, *inputs) in cases.items():
        text = problem(function, *inputs)
        print(f"{name}: {text or 'right'}")
        if text:
            return True
    return False
