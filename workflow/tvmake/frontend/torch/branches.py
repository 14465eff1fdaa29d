"""Replace ``torch.cond`` by both of its branches and a selection of one result.

Branches have no side effects, so the results are the same. Repair: `torch-higher-order-operators`.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from tvmake.frontend.torch.program import graphs


def compute_both_branches(program: ExportedProgram) -> None:
    """Inline all branches into the graph that calls them, in place, innermost first."""
    for graph in reversed(graphs(program)):
        for node in graph.find_nodes(op="call_function", target=torch.ops.higher_order.cond):
            _inline_cond(graph, node)
        graph.eliminate_dead_code()
    program.graph_module.recompile()


def _inline_cond(graph: fx.Graph, node: fx.Node) -> None:
    predicate, first, second, *rest = node.args
    operands = list(rest[0]) if rest else []
    with graph.inserting_before(node):
        branches = [_inline_branch(graph, branch, operands) for branch in (first, second)]
        results = [_select(graph, predicate, *pair) for pair in zip(*branches, strict=True)]
    for user in list(node.users):
        user.replace_all_uses_with(results[user.args[1]])
        graph.erase_node(user)
    graph.erase_node(node)


def _inline_branch(graph: fx.Graph, branch: Any, operands: Sequence[Any]) -> list[Any]:
    """Copy a branch into a graph, with these operands; return its results."""
    owner: Any = graph.owning_module
    inner = owner.get_submodule(branch.target).graph
    copies: dict[fx.Node, Any] = dict(zip(inner.find_nodes(op="placeholder"), operands, strict=True))
    for node in inner.nodes:
        if node.op == "call_function":
            copies[node] = graph.node_copy(node, copies.__getitem__)
            copies[node].meta = dict(node.meta)
    return pytree.tree_map_only(fx.Node, copies.__getitem__, list(inner.output_node().args[0]))


def _select(graph: fx.Graph, predicate: Any, first: Any, second: Any) -> Any:
    if isinstance(predicate, bool) or first is second:
        return first if predicate else second
    selected = graph.call_function(torch.ops.aten.where.self, (predicate, first, second))
    selected.meta["val"] = first.meta["val"]
    return selected
