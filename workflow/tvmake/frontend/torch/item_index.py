"""Convert ``x[t]`` with a one-element tensor to a gather.

PyTorch exports it as a view at a data-dependent offset, whose symbol is in all views of the result.
"""

import torch
from torch import fx
from torch.export import ExportedProgram

from tvmake.frontend.torch.program import graphs

aten = torch.ops.aten


def rewrite_item_index(program: ExportedProgram) -> bool:
    """Replace such views by lookups, in place.

    Returns:
        Whether the program has any. Shapes and strides of the dependent nodes are not updated.
    """
    views = [
        (graph, node)
        for graph in graphs(program)
        for node in graph.find_nodes(op="call_function", target=aten.select.int)
        if isinstance(node.args[2], fx.Node) and node.args[2].target is aten._local_scalar_dense.default
    ]
    for graph, node in views:
        data, axis, item = node.args
        with graph.inserting_before(node):
            indices = graph.call_function(aten.reshape.default, (item.args[0], [1]))
            rows = graph.call_function(aten.index_select.default, (data, axis, indices))
            node.replace_all_uses_with(graph.call_function(aten.squeeze.dim, (rows, axis)))
    for graph in graphs(program) if views else ():
        graph.eliminate_dead_code()
    program.graph_module.recompile()
    return bool(views)
