"""``torch.cond`` as both of its branches and a choice between their results.

Branches have no effects, so that the results are the same. Repair: `torch-higher-order-operators`.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from tvmake.frontend.torch.program import graphs


def compute_both_branches(program: ExportedProgram) -> None:
    """Put the branches into the graph that chooses between them, in place, those of branches first."""
    for graph in reversed(graphs(program)):
        for node in graph.find_nodes(op="call_function", target=torch.ops.higher_order.cond):
            _choose(graph, node)
        graph.eliminate_dead_code()
    program.graph_module.recompile()


def _choose(graph: fx.Graph, node: fx.Node) -> None:
    predicate, first, second, *given = node.args
    operands = list(given[0]) if given else []
    with graph.inserting_before(node):
        one, other = (_inlined(graph, branch, operands) for branch in (first, second))
        chosen = [_chosen(graph, predicate, *pair) for pair in zip(one, other, strict=True)]
    for user in list(node.users):
        user.replace_all_uses_with(chosen[user.args[1]])
        graph.erase_node(user)
    graph.erase_node(node)


def _inlined(graph: fx.Graph, branch: Any, operands: Sequence[Any]) -> list[Any]:
    """A branch's results, computed in a graph from these operands."""
    owner: Any = graph.owning_module
    inner = owner.get_submodule(branch.target).graph
    known: dict[fx.Node, Any] = dict(zip(inner.find_nodes(op="placeholder"), operands, strict=True))
    for node in inner.nodes:
        if node.op == "call_function":
            known[node] = graph.node_copy(node, known.__getitem__)
            known[node].meta = dict(node.meta)
    return pytree.tree_map_only(fx.Node, known.__getitem__, list(inner.output_node().args[0]))


def _chosen(graph: fx.Graph, predicate: Any, one: Any, other: Any) -> Any:
    if isinstance(predicate, bool) or one is other:
        return one if predicate else other
    made = graph.call_function(torch.ops.aten.where.self, (predicate, one, other))
    made.meta["val"] = one.meta["val"]
    return made
