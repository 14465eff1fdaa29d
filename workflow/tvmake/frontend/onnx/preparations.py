"""The preparations of an ONNX graph before its import, in order. This module does not import TVM."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import onnx
from onnx import helper

from tvmake.frontend.onnx.domains import STANDARD, check_domains
from tvmake.frontend.onnx.graph import Builder, Graph, all_nodes, subgraphs
from tvmake.frontend.onnx.loops.bodies import prepare_loops
from tvmake.frontend.onnx.opset import convert_opset, inline_functions
from tvmake.frontend.onnx.rewrites import function_bodies, narrow
from tvmake.frontend.onnx.rewrites.auto_pad import write_out_padding
from tvmake.frontend.onnx.rewrites.ceil_mode import round_down
from tvmake.frontend.onnx.rewrites.fold import drop_unused, fold
from tvmake.frontend.onnx.rewrites.masked_writes import choose_by_masks
from tvmake.frontend.onnx.rewrites.replace_contrib import rewrite_contrib
from tvmake.frontend.onnx.rewrites.sequences import resolve_sequences
from tvmake.frontend.onnx.rewrites.table import REWRITES

MAX_ROUNDS = 60
"""A round folds and rewrites once; nested functions and loops need several rounds."""


RULES_OPSET = 18
"""The opset of a file that has no operators of ONNX's own domain."""


def standardize(model: onnx.ModelProto, where: str, opset: int | None = None) -> Graph:
    """The model's graph in ONNX's own operators and in one opset; ``model`` is changed.

    Raises:
        InputError: operators of other domains remain, shapes contradict each other, or the opset does not exist.
    """
    if not any(entry.domain in STANDARD for entry in model.opset_import):
        model.opset_import.append(helper.make_opsetid("", RULES_OPSET))  # for the operators that replace others
    graph = Graph(model, where)
    inline_functions(graph)
    rewrite_contrib(graph)
    check_domains(graph.model, where, is_prepared=True)
    convert_opset(graph, opset)
    choose_by_masks(graph)
    return graph


def apply_rewrites(graph: Graph) -> Counter[str]:
    """Apply the table of rewrites to every node; returns the number of replacements by operator."""
    nodes: list[onnx.NodeProto] = []
    counts: Counter[str] = Counter()
    for index, node in enumerate(graph.graph.node):
        build = Builder(graph, f"{node.op_type}_{index}")
        rule = REWRITES.get(node.op_type) if node.domain in function_bodies.DOMAINS else None
        outputs = rule(node, build) if rule else None
        if outputs is None:
            nodes.append(node)
            continue
        counts[node.op_type] += 1
        nodes.extend(build.nodes)
        for name, value in zip(node.output, outputs, strict=False):
            if name and value:
                nodes.append(helper.make_node("Identity", [value], [name]))
    if counts:
        del graph.graph.node[:]
        graph.graph.node.extend(nodes)
    return counts


@dataclass(frozen=True)
class Preparation:
    """A step of a round."""

    name: str
    """Key in the notes of an import; empty for a step that counts by operator."""
    apply: Callable[[Graph], "int | Mapping[str, int] | None"]
    """Changes the graph in place; returns the number of changes."""
    calls_for_round: bool = True
    """Whether another round follows a change, because it may enable other steps."""

    def counts(self, graph: Graph) -> Counter[str]:
        """Apply the step; returns the changes by name."""
        changes = self.apply(graph)
        return Counter(changes) if isinstance(changes, Mapping) else Counter({self.name: changes or 0})


ROUND: tuple[Preparation, ...] = (
    Preparation("unused", drop_unused, calls_for_round=False),
    Preparation("padded pools", write_out_padding, calls_for_round=False),
    Preparation("rounded pools", round_down, calls_for_round=False),
    Preparation("narrow types", narrow.replace_narrow_types),
    Preparation("folded", fold),
    Preparation("", apply_rewrites),
    Preparation("sequences", resolve_sequences),
)
"""The steps of a round; rounds are repeated until no step calls for another one."""


def repeat_rounds(graph: Graph) -> Counter[str]:
    """Apply rounds of steps to a standardized graph; returns the changes by name."""
    changes: Counter[str] = Counter()
    for _ in range(MAX_ROUNDS):
        is_changed = False
        for step in ROUND:
            counts = step.counts(graph)
            changes.update(counts)
            is_changed |= step.calls_for_round and any(counts.values())
        if not is_changed:
            break
        graph.refresh()
    return changes


def prepare_all(graph: Graph) -> Counter[str]:
    """Apply the rounds to a standardized graph, its loops and its branches; returns the changes by name."""
    changes = repeat_rounds(graph)
    if loops := prepare_loops(graph, prepare_all):
        changes += loops + repeat_rounds(graph)
    drop_unused(graph)
    return changes + prepare_branches(graph)


def prepare_branches(graph: Graph) -> Counter[str]:
    """Apply the rounds to the branches of every If, each as a graph of its own; returns the changes by name."""
    changes: Counter[str] = Counter()
    for node in graph.graph.node:
        for branch in subgraphs(node) if node.op_type == "If" else ():
            outer = set(_outer_values(branch))
            inner = branch_graph(branch, graph)
            changes += prepare_all(inner)
            drop_unused(inner)
            prepared = inner.finish().graph
            del branch.node[:], branch.initializer[:]
            branch.node.extend(prepared.node)
            branch.initializer.extend(tensor for tensor in prepared.initializer if tensor.name not in outer)
    return changes


def branch_graph(branch: onnx.GraphProto, graph: Graph) -> Graph:
    """A branch as a graph of its own; the values of the graph around it are its inputs, its constants are constants there, too."""
    outer = _outer_values(branch)
    inputs = [_declare(graph, name) for name in outer if not graph.is_constant(name)]
    constants = [graph.constants.get(name) or graph.large[name] for name in outer if graph.is_constant(name)]
    body = helper.make_graph(branch.node, branch.name, inputs, branch.output, [*branch.initializer, *constants])
    return Graph(helper.make_model(body, opset_imports=graph.model.opset_import), graph.where)


def _outer_values(branch: onnx.GraphProto) -> list[str]:
    """The values of the graph around a branch that it reads or returns, in order."""
    nodes = list(all_nodes(branch))
    own = {name for node in nodes for name in node.output} | {tensor.name for tensor in branch.initializer}
    own |= {tensor.name for node in nodes for body in subgraphs(node) for tensor in body.initializer}
    read = [name for node in nodes for name in node.input] + [value.name for value in branch.output]
    return list(dict.fromkeys(name for name in read if name and name not in own))


def _declare(graph: Graph, name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, graph.dtype(name), graph.shape(name))
