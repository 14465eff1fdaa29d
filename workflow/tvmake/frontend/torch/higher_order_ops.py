"""Unroll higher-order operators: scans and maps over an axis, and attention with a score function.

The number of calls is known at import, so each call is inlined. Repair: `torch-higher-order-operators`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from tvmake.frontend.torch.program import graphs

MAX_STEPS = 512
"""Maximum number of inlined calls. Operators with more are not unrolled, and are refused."""


def unroll_higher_order_ops(program: ExportedProgram) -> bool:
    """Unroll these operators in a program's graphs, in place; return whether it has any.

    Args:
        program: of core operators. The inlined operators may need further decomposition.
    """
    is_changed = False
    for graph in graphs(program):
        for operator, (compute, steps) in OPERATORS.items():
            for node in graph.find_nodes(op="call_function", target=operator):
                if steps(node) <= MAX_STEPS:
                    _inline_operator(graph, node, compute)
                    is_changed = True
        graph.eliminate_dead_code()
    program.graph_module.recompile()
    return is_changed


def _inline_operator(graph: fx.Graph, node: fx.Node, compute: Callable[..., Sequence[Tensor]]) -> None:
    """Trace a function of a node's arguments, and replace the node by the traced operators."""
    owner: Any = graph.owning_module
    leaves, structure = pytree.tree_flatten(node.args)
    positions = [index for index, leaf in enumerate(leaves) if isinstance(leaf, fx.Node) and leaf.op != "get_attr"]
    functions = {
        index: owner.get_submodule(leaf.target)
        for index, leaf in enumerate(leaves)
        if isinstance(leaf, fx.Node) and index not in positions
    }

    def call_with_tensors(*tensors: Tensor) -> list[Tensor]:
        arguments = [functions.get(index, leaf) for index, leaf in enumerate(leaves)]
        for index, tensor in zip(positions, tensors, strict=True):
            arguments[index] = tensor
        return list(compute(*pytree.tree_unflatten(arguments, structure)))

    values = [leaves[index].meta["val"] for index in positions]
    with next(value.fake_mode for value in values if hasattr(value, "fake_mode")):
        traced = make_fx(call_with_tensors)(*values)
    copies: dict[fx.Node, Any] = dict(
        zip(traced.graph.find_nodes(op="placeholder"), (leaves[index] for index in positions), strict=True)
    )
    with graph.inserting_before(node):
        for inner in traced.graph.nodes:
            if inner.op == "call_function":
                copies[inner] = graph.node_copy(inner, copies.__getitem__)
                copies[inner].meta = {"val": inner.meta["val"]}
    results = [copies[inner] for inner in traced.graph.output_node().args[0]]
    for user in list(node.users):
        user.replace_all_uses_with(results[user.args[1]])
        graph.erase_node(user)
    graph.erase_node(node)


def _scan(
    combine: fx.GraphModule, initial: Sequence[Tensor], inputs: Sequence[Tensor], captured: Sequence[Tensor] = ()
) -> list[Tensor]:
    """The final state, and the stacked outputs of all steps."""
    state, outputs = list(initial), []
    for step in range(inputs[0].shape[0]):
        results = combine(*state, *(rows[step] for rows in inputs), *captured)
        state = list(results[: len(initial)])
        outputs.append(results[len(initial) :])
    return [*state, *(torch.stack(column) for column in zip(*outputs, strict=True))]


def _map(function: fx.GraphModule, inputs: Sequence[Tensor], captured: Sequence[Tensor] = ()) -> list[Tensor]:
    outputs = [function(*(rows[step] for rows in inputs), *captured) for step in range(inputs[0].shape[0])]
    return [torch.stack(column) for column in zip(*outputs, strict=True)]


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score: fx.GraphModule,
    blocks: Sequence[Any],
    scale: float,
    _options: Mapping[str, Any],
    score_captured: Sequence[Tensor] = (),
    mask_captured: Sequence[Tensor] = (),
) -> tuple[Tensor, Tensor, Tensor]:
    """Attention with functions for scores and mask: the result, the log-sum-exp of the scores and their maximum, to base 2.

    Args:
        query: ``[samples, heads, queries, width]``.
        key: ``[samples, heads, keys, width]``, with fewer heads in grouped-query attention.
        value: likewise.
        score: function of a score, its sample, head, query and key.
        blocks: the last element is the mask function, of a sample, head, query and key.
        scale: factor of the scores.
        score_captured: further arguments of the score function.
        mask_captured: further arguments of the mask function.
    """
    group = query.shape[1] // key.shape[1]
    key, value = (tensor.repeat_interleave(group, 1).expand(query.shape[0], -1, -1, -1) for tensor in (key, value))
    scores = query @ key.mT * scale
    indices = [torch.arange(extent) for extent in scores.shape]
    mask = _vectorize(blocks[-1], (), len(mask_captured))(*indices, *mask_captured)
    modified = _vectorize(score, (0,), len(score_captured))(scores, *indices, *score_captured)
    modified = torch.where(mask, modified, -math.inf)
    maximum = modified.amax(-1, keepdim=True)
    powers = (modified - torch.where(maximum == -math.inf, 0.0, maximum)).exp()
    total = powers.sum(-1, keepdim=True)
    weights = powers / torch.where(total == 0, 1.0, total)  # a query whose keys are all masked gets zeros
    logarithm = (total.log() + torch.where(maximum == -math.inf, 0.0, maximum)).squeeze(-1)
    return weights @ value, logarithm / math.log(2), maximum.squeeze(-1) / math.log(2)


def _vectorize(function: Callable[..., Tensor], batched: tuple[int, ...], captured: int) -> Callable[..., Tensor]:
    """Map a function of one sample, head, query and key over all of them."""
    for axis in (3, 2, 1, 0):
        in_dims = [0 if axis == index else None for index in range(4)]
        function = torch.vmap(function, in_dims=(*batched, *in_dims, *[None] * captured))
    return function


def _step_count(node: fx.Node) -> int:
    """The number of steps; more than the maximum if it is dynamic."""
    rows = node.args[2] if node.target is torch.ops.higher_order.scan else node.args[1]
    extent = rows[0].meta["val"].shape[0]
    return extent if isinstance(extent, int) else MAX_STEPS + 1


def _once(_node: fx.Node) -> int:
    return 1


OPERATORS: Mapping[Any, tuple[Callable[..., Sequence[Tensor]], Callable[[fx.Node], int]]] = {
    torch.ops.higher_order.scan: (_scan, _step_count),
    torch.ops.higher_order.map_impl: (_map, _step_count),
    torch.ops.higher_order.flex_attention: (_attention, _once),
}
"""The function that computes each operator, and its number of steps."""
