"""``x[t]`` with a tensor of one element, as a gather.

PyTorch exports it as a view at an offset that depends on the data; its symbol is in all views of the result.
"""

import torch
from torch import fx
from torch.export import ExportedProgram

from tvmake.frontend.torch.program import graphs

aten = torch.ops.aten


def rewrite_item_index(program: ExportedProgram) -> bool:
    """Write such views as lookups, in place.

    Returns:
        Whether there were any; the shapes and strides of what depends on them are still those of before.
    """
    found = [
        (graph, node)
        for graph in graphs(program)
        for node in graph.find_nodes(op="call_function", target=aten.select.int)
        if isinstance(node.args[2], fx.Node) and node.args[2].target is aten._local_scalar_dense.default
    ]
    for graph, node in found:
        data, axis, place = node.args
        with graph.inserting_before(node):
            places = graph.call_function(aten.reshape.default, (place.args[0], [1]))
            rows = graph.call_function(aten.index_select.default, (data, axis, places))
            node.replace_all_uses_with(graph.call_function(aten.squeeze.dim, (rows, axis)))
    for graph in graphs(program) if found else ():
        graph.eliminate_dead_code()
    program.graph_module.recompile()
    return bool(found)
