"""Write out higher-order operators: scans over an axis, and attention whose scores a function changes.

How often they call their function is known: its operators are put into the graph that often. Repair: `torch-higher-order-operators`.
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

MOST_STEPS = 512
"""Of a function; with more it stays an operator, and is refused."""


def write_out(program: ExportedProgram) -> bool:
    """Put what those operators compute into their graphs, in place; whether there was one.

    Args:
        program: of core operators; what is put in may need to be taken apart further.
    """
    is_changed = False
    for graph in graphs(program):
        for operator, (compute, steps) in OPERATORS.items():
            for node in graph.find_nodes(op="call_function", target=operator):
                if steps(node) <= MOST_STEPS:
                    _put_in(graph, node, compute)
                    is_changed = True
        graph.eliminate_dead_code()
    program.graph_module.recompile()
    return is_changed


def _put_in(graph: fx.Graph, node: fx.Node, compute: Callable[..., Sequence[Tensor]]) -> None:
    """What a function of an operator's arguments gives, as nodes in its place."""
    owner: Any = graph.owning_module
    leaves, structure = pytree.tree_flatten(node.args)
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, fx.Node) and leaf.op != "get_attr"]
    functions = {
        place: owner.get_submodule(leaf.target)
        for place, leaf in enumerate(leaves)
        if isinstance(leaf, fx.Node) and place not in places
    }

    def of_tensors(*tensors: Tensor) -> list[Tensor]:
        given = [functions.get(place, leaf) for place, leaf in enumerate(leaves)]
        for place, tensor in zip(places, tensors, strict=True):
            given[place] = tensor
        return list(compute(*pytree.tree_unflatten(given, structure)))

    values = [leaves[place].meta["val"] for place in places]
    with next(value.fake_mode for value in values if hasattr(value, "fake_mode")):
        inner = make_fx(of_tensors)(*values)
    known: dict[fx.Node, Any] = dict(
        zip(inner.graph.find_nodes(op="placeholder"), (leaves[place] for place in places), strict=True)
    )
    with graph.inserting_before(node):
        for one in inner.graph.nodes:
            if one.op == "call_function":
                known[one] = graph.node_copy(one, known.__getitem__)
                known[one].meta = {"val": one.meta["val"]}
    results = [known[one] for one in inner.graph.output_node().args[0]]
    for user in list(node.users):
        user.replace_all_uses_with(results[user.args[1]])
        graph.erase_node(user)
    graph.erase_node(node)


def _scanned(
    combine: fx.GraphModule, initial: Sequence[Tensor], rows: Sequence[Tensor], others: Sequence[Tensor] = ()
) -> list[Tensor]:
    """The last state, and what each step gives beside it, stacked."""
    state, given = list(initial), []
    for step in range(rows[0].shape[0]):
        found = combine(*state, *(row[step] for row in rows), *others)
        state = list(found[: len(initial)])
        given.append(found[len(initial) :])
    return [*state, *(torch.stack(column) for column in zip(*given, strict=True))]


def _mapped(function: fx.GraphModule, rows: Sequence[Tensor], others: Sequence[Tensor] = ()) -> list[Tensor]:
    found = [function(*(row[step] for row in rows), *others) for step in range(rows[0].shape[0])]
    return [torch.stack(column) for column in zip(*found, strict=True)]


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score: fx.GraphModule,
    blocks: Sequence[Any],
    scale: float,
    _options: Mapping[str, Any],
    of_score: Sequence[Tensor] = (),
    of_mask: Sequence[Tensor] = (),
) -> tuple[Tensor, Tensor, Tensor]:
    """Attention whose scores and mask are functions of their places: the result, and the logarithm of the scores' sum and their
    maximum, to the base of 2.

    Args:
        query: ``[samples, heads, queries, width]``.
        key: ``[samples, heads, keys, width]``, with fewer heads where several queries share one.
        value: likewise.
        score: of a score, its sample, head, query and key.
        blocks: the last one is the mask's function, of a sample, head, query and key.
        scale: of the scores.
        of_score: what else its function takes.
        of_mask: what else its function takes.
    """
    shared = query.shape[1] // key.shape[1]
    key, value = (one.repeat_interleave(shared, 1).expand(query.shape[0], -1, -1, -1) for one in (key, value))
    scores = query @ key.mT * scale
    places = [torch.arange(extent) for extent in scores.shape]
    is_seen = _everywhere(blocks[-1], (), len(of_mask))(*places, *of_mask)
    changed = _everywhere(score, (0,), len(of_score))(scores, *places, *of_score)
    changed = torch.where(is_seen, changed, -math.inf)
    highest = changed.amax(-1, keepdim=True)
    shifted = (changed - torch.where(highest == -math.inf, 0.0, highest)).exp()
    total = shifted.sum(-1, keepdim=True)
    shares = shifted / torch.where(total == 0, 1.0, total)  # a query that sees no key gets zeros
    logarithm = (total.log() + torch.where(highest == -math.inf, 0.0, highest)).squeeze(-1)
    return shares @ value, logarithm / math.log(2), highest.squeeze(-1) / math.log(2)


def _everywhere(function: Callable[..., Tensor], first: tuple[int, ...], others: int) -> Callable[..., Tensor]:
    """A function of one sample, head, query and key, for all of them."""
    for axis in (3, 2, 1, 0):
        chosen = [0 if axis == place else None for place in range(4)]
        function = torch.vmap(function, in_dims=(*first, *chosen, *[None] * others))
    return function


def _rows(node: fx.Node) -> int:
    """How many steps there are; too many where that is open."""
    rows = node.args[2] if node.target is torch.ops.higher_order.scan else node.args[1]
    extent = rows[0].meta["val"].shape[0]
    return extent if isinstance(extent, int) else MOST_STEPS + 1


def _once(_node: fx.Node) -> int:
    return 1


OPERATORS: Mapping[Any, tuple[Callable[..., Sequence[Tensor]], Callable[[fx.Node], int]]] = {
    torch.ops.higher_order.scan: (_scanned, _rows),
    torch.ops.higher_order.map_impl: (_mapped, _rows),
    torch.ops.higher_order.flex_attention: (_attention, _once),
}
"""What each computes, and how many steps that takes."""
