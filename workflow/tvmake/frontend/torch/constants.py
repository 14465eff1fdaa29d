"""Fold constants with PyTorch before TVM sees the program.

Networks resize position embeddings, standardise weights and build masks in every call, often with operators that TVM lacks.
Views and transposes of weights are not folded: the packer chooses their layout for the target.
"""

from typing import Any

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument
from torch.utils import _pytree as pytree

from tvmake.frontend.one_thread import one_thread

LARGEST = 4 << 20
"""In bytes. A larger value is computed in each call, unless one of its operands is at least as large."""

QUANTISED_NAMESPACES = ("quantized_decomposed", "quantized", "torchao")
"""Namespaces of quantised operators. Dequantisation of parameters is not folded, so that packages store the integers."""

QUANTISED_DTYPES = (torch.int8, torch.uint8)
"""Dtypes of quantised weights."""

REARRANGING = {
    "view", "reshape", "_unsafe_view", "permute", "transpose", "t", "unsqueeze", "squeeze", "expand", "slice", "select", "clone",
    "alias", "detach", "lift_fresh_copy", "contiguous", "getitem", "split", "split_with_sizes", "unbind",
    "full", "full_like", "zeros", "zeros_like", "ones", "ones_like", "empty", "scalar_tensor", "arange",
}  # fmt: skip
"""Operators that rearrange values or fill a tensor. Expressions of these alone are not folded."""


def input_dependent_nodes(program: ExportedProgram) -> set[fx.Node]:
    """The nodes of the program's graph whose values differ between calls."""
    graph = program.graph_signature
    buffers = graph.inputs_to_buffers.items()
    changing = {*graph.user_inputs, *(name for name, buffer in buffers if _is_mutated_buffer(program, buffer))}
    nodes: set[fx.Node] = set()
    for node in program.graph.nodes:
        is_input = node.op == "placeholder" and node.name in changing
        is_computed = node.op == "call_function" and not nodes.isdisjoint(node.all_input_nodes)
        if is_input or is_computed or node.op == "output" or not _is_repeatable(node):
            nodes.add(node)
    return nodes


def compute_constants(program: ExportedProgram) -> None:
    """Replace nodes that depend on parameters only by constants of the program, in place.

    Args:
        program: without operators that change tensors in place, as ``run_decompositions`` leaves it.
    """
    known = _parameter_dependent_nodes(program)
    folded = [
        node
        for node, is_computed in known.items()
        # Outputs are named after their nodes, so these nodes are kept.
        if is_computed
        and any(user not in known for user in node.users)
        and all(user.op != "output" for user in node.users)
    ]
    folded = [node for node in folded if isinstance(node.meta["val"], Tensor)]
    if not folded:
        return
    values = constant_values(program)
    with torch.no_grad(), one_thread():
        for number, node in enumerate(folded):
            try:
                value = evaluate(node, values).detach().contiguous().clone()
            except (RuntimeError, NotImplementedError):
                continue  # PyTorch cannot run it here; the importer converts or refuses it
            constant = add_constant(program, f"tvmake_computed_{number}", value, node.meta["val"])
            values[constant] = value
            node.replace_all_uses_with(constant)
    for node in reversed(known):
        if node.op == "call_function" and not node.users:  # including assertions on constants, which passed
            program.graph.erase_node(node)
    program.graph_module.recompile()


def add_constant(program: ExportedProgram, name: str, value: Tensor, example: Tensor) -> fx.Node:
    """Add a constant to a program; ``example`` is the fake tensor that represents it in the graph."""
    first = next(iter(program.graph.find_nodes(op="placeholder")))
    with program.graph.inserting_before(first):
        constant = program.graph.placeholder(name)
    constant.meta = {"val": example}
    program.constants[name] = value
    spec = InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(constant.name), name)
    program.graph_signature.input_specs.insert(0, spec)
    return constant


def _parameter_dependent_nodes(program: ExportedProgram) -> dict[fx.Node, bool]:
    """The nodes that depend on parameters only and are small enough to store, and whether each needs computation."""
    dependent = input_dependent_nodes(program)
    known: dict[fx.Node, bool] = {}
    for node in program.graph.nodes:
        operands = node.all_input_nodes
        if node in dependent or not all(operand in known for operand in operands) or _dequantizes(node):
            continue
        if node.op == "placeholder":
            known[node] = False
        elif _size(node) <= max(LARGEST, *map(_size, operands), 0):
            known[node] = _name(node) not in REARRANGING or any(known[operand] for operand in operands)
    return known


def _dequantizes(node: fx.Node) -> bool:
    """Whether a node converts a matrix of 8-bit integers, as quantised weights are, to floats."""
    result, *operands = (value.meta.get("val") for value in (node, *node.all_input_nodes))
    return (
        isinstance(result, Tensor)
        and result.is_floating_point()
        and any(isinstance(value, Tensor) and value.dtype in QUANTISED_DTYPES and value.ndim > 1 for value in operands)
    )


def _is_mutated_buffer(program: ExportedProgram, buffer: str) -> bool:
    return buffer in program.graph_signature.buffers_to_mutate.values()


def _is_repeatable(node: fx.Node) -> bool:
    """Whether a node is a deterministic operator without side effects."""
    if node.op != "call_function":
        return node.op == "placeholder"
    if isinstance(node.target, torch._ops.OpOverload):
        is_quantised = node.target.namespace in QUANTISED_NAMESPACES and not _name(node).startswith("quantize")
        is_plain = not is_quantised and torch.Tag.nondeterministic_seeded not in node.target.tags
        return is_plain and not node.target._schema.is_mutable
    return getattr(node.target, "__module__", "") == "_operator"


def _name(node: fx.Node) -> str:
    return str(getattr(getattr(node.target, "overloadpacket", node.target), "__name__", "")).partition(".")[0]


def _size(node: fx.Node) -> int:
    """Bytes of a node's results."""
    values = [value for value in pytree.tree_leaves(node.meta.get("val")) if isinstance(value, Tensor)]
    return sum(value.numel() * value.element_size() for value in values)


def constant_values(program: ExportedProgram) -> dict[fx.Node, Any]:
    """Parameters, buffers and constants, by their nodes."""
    nodes = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    values = {}
    for spec in program.graph_signature.input_specs:
        if spec.target is not None:
            tensors = program.state_dict if spec.target in program.state_dict else program.constants
            values[nodes[spec.arg.name]] = tensors[spec.target]
    return values


def evaluate(node: fx.Node, values: dict[fx.Node, Any]) -> Any:
    """Compute a node and its operands. All results are added to ``values``."""
    stack = [node]
    while stack:
        last = stack[-1]
        missing = [operand for operand in last.all_input_nodes if operand not in values]
        if missing:
            stack += missing
            continue
        stack.pop()
        if last not in values:
            args, kwargs = fx.node.map_arg((last.args, last.kwargs), values.__getitem__)
            values[last] = last.target(*args, **kwargs)
    return values[node]
