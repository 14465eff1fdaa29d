"""Convert outputs of ``forward`` to tuples and dicts of tensors: named tuples and dataclasses become dicts, None is dropped.

torch.export accepts named tuples but cannot save them, does not know dataclasses, and lists None as an output.
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


def has_plain_outputs(program: ExportedProgram) -> bool:
    """Whether a program returns neither None nor named tuples, including PyTorch's own (``x.max(1)``)."""
    outputs = [getattr(spec.arg, "value", spec.arg) for spec in program.graph_signature.output_specs]
    return None not in outputs and not _has_named_tuples(program.call_spec.out_spec)


@contextmanager
def replace_forward(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Replace ``forward`` of a module in this context."""
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
def return_plain_outputs(module: nn.Module) -> Iterator[None]:
    """Let a module return plain tuples and dicts in this context."""
    forward = module.forward

    @wraps(forward)
    def plain_forward(*args: Any, **kwargs: Any) -> Any:
        return _to_plain(forward(*args, **kwargs))

    with replace_forward(module, plain_forward):
        yield


def drop_none_outputs(program: ExportedProgram) -> None:
    """Drop None from a program's outputs, in place, and convert named tuples. A single None is kept."""
    signature = program.module_call_graph[0].signature
    specs = program.graph_signature.output_specs
    if signature is None or signature.out_spec is None:
        return
    first = len(specs) - signature.out_spec.num_leaves  # changes to buffers and inputs come before the outputs
    values = [None if _is_none(spec) else number for number, spec in enumerate(specs)]
    remaining, out_spec = pytree.tree_flatten(_to_plain(pytree.tree_unflatten(values[first:], signature.out_spec)))
    if None not in values[first:] or not remaining:
        return
    numbers = [*range(first), *remaining]
    end = program.graph.output_node()
    specs[:] = [specs[number] for number in numbers]
    end.args = (tuple(end.args[0][number] for number in numbers),)
    if signature.outputs:  # empty in a program loaded from a file
        signature.outputs[:] = [signature.outputs[number - first] for number in remaining]
    signature.out_spec = out_spec
    program.graph_module.recompile()


def _is_none(spec: OutputSpec) -> bool:
    return isinstance(spec.arg, ConstantArgument) and spec.arg.value is None


def _to_plain(value: Any) -> Any:
    if _is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    elif isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {name: _to_plain(item) for name, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return tuple(_to_plain(item) for item in value if item is not None)
    return value


def _is_dataclass(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _has_named_tuples(spec: Any) -> bool:
    is_named_tuple = spec.type is pytree.namedtuple or getattr(spec.type, "__module__", "") == "torch.return_types"
    return is_named_tuple or any(_has_named_tuples(child) for child in spec.children())
