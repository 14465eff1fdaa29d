"""Export modules that differentiate in ``forward``, for example forces as gradients of an energy.

torch.export traces above ``torch.func.grad`` and ``torch.autograd.grad``, and fails or stores tensors that it cannot
save. ``make_fx`` traces below them, where a derivative consists of ordinary operators.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.func import functional_call
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel

from tvmake.frontend.torch.exporting.output_structure import replace_forward


def has_functorch_tensors(program: ExportedProgram) -> bool:
    """Whether a program stores functorch tensors, whose differentiation ended with the trace."""
    values = {**program.state_dict, **program.constants}.values()
    return any(isinstance(value, Tensor) and torch._C._functorch.is_functorch_wrapped_tensor(value) for value in values)


@contextmanager
def expand_derivatives(module: nn.Module, examples: Sequence[Any]) -> Iterator[None]:
    """Replace ``forward`` in this context by its trace, in which derivatives are ordinary operators.

    Args:
        module: the module to trace, without values. PyTorch raises an error if it reads values.
        examples: arguments of ``forward``.
    """
    forward = module.forward

    def call_module(state: dict[str, Tensor], *args: Any) -> Any:
        # Fused attention and recurrent kernels have no derivative in ordinary operators.
        with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH), torch.backends.mkldnn.flags(enabled=False):
            return functional_call(module, state, args)

    with warnings.catch_warnings(action="ignore"):  # PyTorch's, about the kernels disabled above
        traced = make_fx(call_module, tracing_mode="fake", _allow_non_fake_inputs=True)(
            _detached_state(module), *examples
        )
    # A compiled network cannot raise errors, and torch.export would keep the check as a side effect.
    for node in traced.graph.find_nodes(op="call_function", target=torch.ops.aten._linalg_check_errors.default):
        traced.graph.erase_node(node)
    traced.recompile()

    @wraps(forward)
    def traced_forward(*args: Any) -> Any:
        return traced(_state(module), *args)

    with replace_forward(module, traced_forward):
        yield


def _detached_state(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers without ``requires_grad``."""
    return {name: value.detach() for name, value in _state(module).items()}


def _state(module: nn.Module) -> dict[str, Tensor]:
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}
