"""Outputs of ``forward`` as tuples and dicts of tensors: named tuples and dataclasses by their fields, nothing for None.

torch.export takes named tuples, but no file holds them; it knows no dataclasses, and None stands among the outputs as a value.
"""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from torch import nn
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, OutputSpec
from torch.utils import _pytree as pytree


def is_plain(program: ExportedProgram) -> bool:
    """Whether a program returns no None and no named tuples, PyTorch's own (``x.max(1)``) among them."""
    outputs = [getattr(spec.arg, "value", spec.arg) for spec in program.graph_signature.output_specs]
    return None not in outputs and not _has_named_tuples(program.call_spec.out_spec)


@contextmanager
def calling(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """The module computes by another function meanwhile."""
    before = module.__dict__.get("forward")
    module.__dict__["forward"] = forward
    try:
        yield
    finally:
        if before is None:
            del module.__dict__["forward"]
        else:
            module.__dict__["forward"] = before


@contextmanager
def plainly(module: nn.Module) -> Iterator[None]:
    """The module returns plain tuples and dicts meanwhile."""
    forward = module.forward

    @wraps(forward)
    def plain_forward(*args: Any, **kwargs: Any) -> Any:
        return _plain(forward(*args, **kwargs))

    with calling(module, plain_forward):
        yield


def leave_out_none(program: ExportedProgram) -> None:
    """Take None away from among what a program returns, and named tuples and dataclasses with it; None alone stays.

    Args:
        program: is changed.
    """
    signature = program.module_call_graph[0].signature
    specs = program.graph_signature.output_specs
    if signature is None or signature.out_spec is None:
        return
    first = len(specs) - signature.out_spec.num_leaves  # before them stand the changes to buffers and inputs
    values = [None if _is_none(spec) else number for number, spec in enumerate(specs)]
    kept, out_spec = pytree.tree_flatten(_plain(pytree.tree_unflatten(values[first:], signature.out_spec)))
    if None not in values[first:] or not kept:
        return
    numbers = [*range(first), *kept]
    end = program.graph.output_node()
    specs[:] = [specs[number] for number in numbers]
    end.args = (tuple(end.args[0][number] for number in numbers),)
    if signature.outputs:  # a file's are empty
        signature.outputs[:] = [signature.outputs[number - first] for number in kept]
    signature.out_spec = out_spec
    program.graph_module.recompile()


def _is_none(spec: OutputSpec) -> bool:
    return isinstance(spec.arg, ConstantArgument) and spec.arg.value is None


def _plain(value: Any) -> Any:
    if _is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    elif isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return tuple(_plain(item) for item in value if item is not None)
    return value


def _is_dataclass(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _has_named_tuples(spec: Any) -> bool:
    is_one = spec.type is pytree.namedtuple or getattr(spec.type, "__module__", "") == "torch.return_types"
    return is_one or any(_has_named_tuples(child) for child in spec.children())
