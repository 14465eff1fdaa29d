"""Modules that differentiate in ``forward``: forces are gradients of energies, equations of physics hold derivatives of what is learned.

torch.export traces above PyTorch's differentiation, ``torch.func.grad`` and ``torch.autograd.grad`` alike, and stops there or keeps what it
cannot write. Below it, where ``make_fx`` traces, a derivative is operators as others are.
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

from tvmake.frontend.torch.exporting.output_structure import calling


def are_kept(program: ExportedProgram) -> bool:
    """Whether a program holds tensors of a differentiation that ended with the trace."""
    held = {**program.state_dict, **program.constants}.values()
    return any(isinstance(one, Tensor) and torch._C._functorch.is_functorch_wrapped_tensor(one) for one in held)


@contextmanager
def written_out(module: nn.Module, examples: Sequence[Any]) -> Iterator[None]:
    """The module computes meanwhile by operators in which its derivatives are written out.

    Args:
        module: that is traced, without values: one that asks for values raises what PyTorch raises then.
        examples: what ``forward`` is called with.
    """
    forward = module.forward

    def computed(state: dict[str, Tensor], *args: Any) -> Any:
        # Attention and recurrent layers that have kernels of their own have no other form below.
        with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH), torch.backends.mkldnn.flags(enabled=False):
            return functional_call(module, state, args)

    with warnings.catch_warnings(action="ignore"):  # of PyTorch, about what is switched off above
        traced = make_fx(computed, tracing_mode="fake", _allow_non_fake_inputs=True)(_fixed(module), *examples)
    # A compiled network cannot raise errors, and torch.export orders that among other effects.
    for node in traced.graph.find_nodes(op="call_function", target=torch.ops.aten._linalg_check_errors.default):
        traced.graph.erase_node(node)
    traced.recompile()

    @wraps(forward)
    def traced_forward(*args: Any) -> Any:
        return traced(_state(module), *args)

    with calling(module, traced_forward):
        yield


def _fixed(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers, by which nothing is differentiated that does not ask for it."""
    return {name: value.detach() for name, value in _state(module).items()}


def _state(module: nn.Module) -> dict[str, Tensor]:
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}
