"""What depends on parameters alone is computed by PyTorch, before TVM sees the program.

Networks resize position embeddings, standardise weights and build masks in every call, often with operators that TVM lacks.
Weights that are only arranged otherwise stay as they are: the packer arranges them for the target.
"""

from typing import Any

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument
from torch.utils import _pytree as pytree

from tvmake.frontend.one_thread import one_thread

LARGEST = 4 << 20
"""In bytes: a value that is larger, and larger than what it is computed from, is computed in each call."""

QUANTISED = ("quantized_decomposed", "quantized", "torchao")
"""Operators of quantised networks. Those that make floats of parameters stay, so that packages hold the integers."""

SMALL = (torch.int8, torch.uint8)
"""Types of quantised weights."""

CHEAP = {
    "view", "reshape", "_unsafe_view", "permute", "transpose", "t", "unsqueeze", "squeeze", "expand", "slice", "select", "clone",
    "alias", "detach", "lift_fresh_copy", "contiguous", "getitem", "split", "split_with_sizes", "unbind",
    "full", "full_like", "zeros", "zeros_like", "ones", "ones_like", "empty", "scalar_tensor", "arange",
}  # fmt: skip
"""Operators that arrange values or fill a tensor: what consists of nothing else is left as it is."""


def input_dependent(program: ExportedProgram) -> set[fx.Node]:
    """The nodes of the program's graph whose values are not the same in every call."""
    graph = program.graph_signature
    changing = {*graph.user_inputs, *(name for name, of in graph.inputs_to_buffers.items() if _is_changed(program, of))}
    found: set[fx.Node] = set()
    for node in program.graph.nodes:
        is_input = node.op == "placeholder" and node.name in changing
        is_computed = node.op == "call_function" and not found.isdisjoint(node.all_input_nodes)
        if is_input or is_computed or node.op == "output" or not _is_repeatable(node):
            found.add(node)
    return found


def compute_constants(program: ExportedProgram) -> None:
    """Replace what depends on parameters alone by constants of the program, in place.

    Args:
        program: without operators that change tensors in place, as ``run_decompositions`` leaves it.
    """
    known = _known(program)
    wanted = [
        node
        for node, is_computed in known.items()
        # Outputs are named after their nodes, and stay.
        if is_computed
        and any(user not in known for user in node.users)
        and all(user.op != "output" for user in node.users)
    ]
    wanted = [node for node in wanted if isinstance(node.meta["val"], Tensor)]
    if not wanted:
        return
    values = given_values(program)
    with torch.no_grad(), one_thread():
        for number, node in enumerate(wanted):
            try:
                value = computed(node, values).detach().contiguous().clone()
            except (RuntimeError, NotImplementedError):
                continue  # PyTorch cannot run it here; the importer says what it thinks of it
            constant = add_constant(program, f"tvmake_computed_{number}", value, node.meta["val"])
            values[constant] = value
            node.replace_all_uses_with(constant)
    for node in reversed(known):
        if node.op == "call_function" and not node.users:  # assertions about constants among them, which held
            program.graph.erase_node(node)
    program.graph_module.recompile()


def add_constant(program: ExportedProgram, name: str, value: Tensor, example: Tensor) -> fx.Node:
    """Give a program a constant; ``example`` is the fake tensor that stands for it while the program is looked at."""
    first = next(iter(program.graph.find_nodes(op="placeholder")))
    with program.graph.inserting_before(first):
        constant = program.graph.placeholder(name)
    constant.meta = {"val": example}
    program.constants[name] = value
    spec = InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(constant.name), name)
    program.graph_signature.input_specs.insert(0, spec)
    return constant


def _known(program: ExportedProgram) -> dict[fx.Node, bool]:
    """The nodes that depend on parameters alone and are small enough to be kept, and whether each is computed."""
    dependent = input_dependent(program)
    known: dict[fx.Node, bool] = {}
    for node in program.graph.nodes:
        before = node.all_input_nodes
        if node in dependent or not all(one in known for one in before) or _makes_numbers(node):
            continue
        if node.op == "placeholder":
            known[node] = False
        elif _size(node) <= max(LARGEST, *map(_size, before), 0):
            known[node] = _name(node) not in CHEAP or any(known[one] for one in before)
    return known


def _makes_numbers(node: fx.Node) -> bool:
    """Whether a node makes floats of a matrix of small integers, as quantised weights are: packages hold the integers."""
    made, *given = (one.meta.get("val") for one in (node, *node.all_input_nodes))
    return (
        isinstance(made, Tensor)
        and made.is_floating_point()
        and any(isinstance(one, Tensor) and one.dtype in SMALL and one.ndim > 1 for one in given)
    )


def _is_changed(program: ExportedProgram, buffer: str) -> bool:
    return buffer in program.graph_signature.buffers_to_mutate.values()


def _is_repeatable(node: fx.Node) -> bool:
    """Whether a node is an operator that gives the same for the same, and changes nothing."""
    if node.op != "call_function":
        return node.op == "placeholder"
    if isinstance(node.target, torch._ops.OpOverload):
        is_quantised = node.target.namespace in QUANTISED and not _name(node).startswith("quantize")
        is_plain = not is_quantised and torch.Tag.nondeterministic_seeded not in node.target.tags
        return is_plain and not node.target._schema.is_mutable
    return getattr(node.target, "__module__", "") == "_operator"


def _name(node: fx.Node) -> str:
    return str(getattr(getattr(node.target, "overloadpacket", node.target), "__name__", "")).partition(".")[0]


def _size(node: fx.Node) -> int:
    """Bytes of what a node gives."""
    values = [value for value in pytree.tree_leaves(node.meta.get("val")) if isinstance(value, Tensor)]
    return sum(value.numel() * value.element_size() for value in values)


def given_values(program: ExportedProgram) -> dict[fx.Node, Any]:
    """Parameters, buffers and constants by their nodes."""
    nodes = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    values = {}
    for spec in program.graph_signature.input_specs:
        if spec.target is not None:
            given = program.state_dict if spec.target in program.state_dict else program.constants
            values[nodes[spec.arg.name]] = given[spec.target]
    return values


def computed(node: fx.Node, values: dict[fx.Node, Any]) -> Any:
    """What a node gives, computed after all that it needs; kept in ``values``."""
    waiting = [node]
    while waiting:
        last = waiting[-1]
        missing = [before for before in last.all_input_nodes if before not in values]
        if missing:
            waiting += missing
            continue
        waiting.pop()
        if last not in values:
            args, kwargs = fx.node.map_arg((last.args, last.kwargs), values.__getitem__)
            values[last] = last.target(*args, **kwargs)
    return values[node]
