"""Read an exported PyTorch program without TVM: its signature, dynamic dimensions and operators."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence

import sympy
import torch
from torch import Tensor, fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind, TensorArgument
from torch.fx.experimental.symbolic_shapes import free_symbols
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._sympy.value_ranges import ValueRanges

from tvmake.artifact.dims import LARGEST_SIZE
from tvmake.artifact.extents import describe_bounds, has_size
from tvmake.artifact.signature import Bounds, Dim, Signature, TensorSpec
from tvmake.errors import InputError
from tvmake.frontend.options import InputSpec

Extents = Mapping[sympy.Symbol, int | str]
"""The fixed sizes or new names of the program's dynamic dimensions, by their symbols."""

DTYPES = {
    torch.float32: "float32",
    torch.float64: "float64",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.int8: "int8",
    torch.int16: "int16",
    torch.int32: "int32",
    torch.int64: "int64",
    torch.uint8: "uint8",
    torch.bool: "bool",
}
"""PyTorch's dtypes in TVM's spelling; the others (complex, quantised) have no counterpart."""

# Operators between an input and a lookup that do not change the values of indices.
_VALUE_PRESERVING_OPS = {
    "view",
    "reshape",
    "unsqueeze",
    "squeeze",
    "clone",
    "_to_copy",
    "to",
    "alias",
    "detach",
    "slice",
}
_VALUE_PRESERVING_OPS |= {"contiguous", "flatten", "permute", "transpose", "t", "expand", "select", "lift_fresh_copy"}


def weights_digest(program: ExportedProgram) -> str:
    """The sha256 of all parameters, buffers and constants that are read, with their names, types and shapes."""
    digest = hashlib.sha256()
    nodes = {node.name: node for node in program.graph.nodes}
    # For example the random states of Keras' layers, which differ at each load.
    unread = {spec.target for spec in program.graph_signature.input_specs if not nodes[spec.arg.name].users}
    for name, tensor in sorted({**program.state_dict, **program.constants}.items()):
        if name in unread:
            continue
        for part_name, part in _plain_tensors(name, tensor):
            digest.update(f"{part_name} {part.dtype} {tuple(part.shape)}\n".encode())
            digest.update(part.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _plain_tensors(name: str, value: object) -> Iterator[tuple[str, Tensor]]:
    """A value's plain tensors with their names; several for a tensor subclass, as torchao's quantised weights."""
    if isinstance(value, Tensor) and is_traceable_wrapper_subclass(value):
        for part in value.__tensor_flatten__()[0]:
            yield from _plain_tensors(f"{name}.{part}", getattr(value, part))
    elif isinstance(value, Tensor):
        yield name, value


def signature(where: str, program: ExportedProgram, extents: Extents | None = None) -> Signature:
    """The program's inputs and outputs in call order, with the sizes and names of dynamic dimensions from ``extents``.

    Inputs have the names of ``forward``'s arguments. A single output is called ``output``; outputs of a tuple are
    called ``output_0``, ``output_1`` …, outputs of a dict by their key. An integer input that selects rows of a table
    has the range 0 … rows - 1.

    Raises:
        InputError: an input or output is not a tensor or has a dtype that TVM lacks, or there is no output.
    """
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    ranges = _index_ranges(program)
    inputs = []
    for spec in program.graph_signature.input_specs:
        if spec.kind is not InputKind.USER_INPUT:
            continue
        name = spec.arg.name
        if not isinstance(spec.arg, TensorArgument):
            raise InputError(
                where,
                f"input '{name}' is a Python {type(getattr(spec.arg, 'value', 0)).__name__}, not a tensor",
                "give the argument a default in forward() and leave it out when calling torch.export.export",
            )
        indices = ranges.get(name)
        update = {"range": indices and (0, indices[1]), "indices": indices}
        inputs.append(tensor_spec(where, name, values[name], extents).model_copy(update=update))
    user_outputs = [
        spec.arg
        for spec in program.graph_signature.output_specs
        if spec.kind in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)
    ]
    if not user_outputs:
        raise InputError(where, "forward() returns nothing", "return the tensors that are wanted, and export again")
    outputs = []
    for name, arg in zip(_output_names(program, len(user_outputs)), user_outputs, strict=True):
        if not isinstance(arg, TensorArgument):
            value = getattr(arg, "value", arg)
            raise InputError(
                where, f"output '{name}' is {value!r}, not a tensor", "return tensors only and export again"
            )
        outputs.append(tensor_spec(where, name, values[arg.name], extents))
    return Signature(inputs=tuple(inputs), outputs=tuple(outputs), bounds=_bounds(program, extents or {}))


def _bounds(program: ExportedProgram, extents: Extents) -> dict[str, Bounds]:
    """The bounds stated at export for dimensions of inputs."""
    values = [node.meta.get("val") for node in program.graph.find_nodes(op="placeholder")]
    used = {symbol for value in values if isinstance(value, Tensor) for symbol in free_symbols(value)}
    bounds: dict[str, Bounds] = {}
    for symbol, stated in sorted(program.range_constraints.items(), key=str):
        name = extents.get(symbol, str(symbol))
        if symbol in used and isinstance(name, str):
            least, most = _bounds_of(stated)
            known, known_most = bounds.get(name, (0, None))  # of another symbol with the same name
            ends = [end for end in (most, known_most) if end is not None]
            bounds[name] = max(least, known), min(ends, default=None)
    return {name: limits for name, limits in bounds.items() if limits != (0, None)}


def _bounds_of(stated: ValueRanges) -> Bounds:
    # torch.export writes a lower bound of 2 for "not specialised to 0 or 1"; it is not a requirement.
    least = 1 if stated.lower in (1, 2) else int(stated.lower)
    return least, int(stated.upper) if stated.upper <= LARGEST_SIZE else None


def resolve_extents(where: str, program: ExportedProgram, entries: Mapping[str, InputSpec]) -> dict[sympy.Symbol, Dim]:
    """The sizes and names that ``inputs:`` gives to the program's dynamic dimensions.

    Args:
        where: the source, for errors.
        program: the exported program.
        entries: entries of ``inputs:`` that passed ``check_inputs``.

    Raises:
        InputError: sizes contradict each other or the bounds stated at export.
    """
    resolved: dict[sympy.Symbol, Dim] = {}
    derived: list[tuple[str, int, sympy.Expr, Dim]] = []
    for node in program.graph.find_nodes(op="placeholder"):
        entry = entries.get(node.name)
        if entry is None or entry.shape is None:
            continue
        for axis, (requested, has) in enumerate(zip(entry.shape, node.meta["val"].shape, strict=True)):
            if isinstance(has, int):
                continue
            expression = has.node.expr
            if not isinstance(expression, sympy.Symbol):
                derived.append((node.name, axis, expression, requested))
                continue
            if resolved.setdefault(expression, requested) != requested:
                problem = f"axis {axis} of input '{node.name}' is {requested}, but the same dimension is {resolved[expression]} elsewhere"
                raise InputError(where, problem, "the model needs both to be equal")
    for name, axis, expression, requested in derived:
        _resolve_derived(where, f"axis {axis} of input '{name}'", expression, requested, resolved)
    for symbol, extent in resolved.items():
        bounds = program.range_constraints.get(symbol)
        if isinstance(extent, int) and bounds is not None and not has_size(_bounds_of(bounds), extent):
            stated = describe_bounds(_bounds_of(bounds))
            problem = f"a dynamic dimension cannot be {extent}: the model was exported for {stated}"
            raise InputError(where, problem, "give another shape, or export with other bounds")
    return resolved


def input_nodes(program: ExportedProgram) -> list[fx.Node]:
    """The nodes of the inputs, in order."""
    inputs = set(program.graph_signature.user_inputs)
    return [node for node in program.graph.find_nodes(op="placeholder") if node.name in inputs]


def run(program: ExportedProgram, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Run the program in PyTorch on flat inputs; inputs and outputs are in the signature's order.

    Unlike ``program.module()(*inputs)``, this supports nested and keyword arguments.
    """
    args, kwargs = pytree.tree_unflatten(list(inputs), program.call_spec.in_spec)
    with torch.no_grad():
        return pytree.tree_leaves(program.module()(*args, **kwargs))


def drop_unread_state(program: ExportedProgram) -> None:
    """Remove writes to buffers, in place, if no output of this or a later call depends on them: counters, statistics.

    Args:
        program: without operators that change tensors in place.
    """
    signature = program.graph_signature
    end = program.graph.output_node()
    returned = list(zip(signature.output_specs, end.args[0], strict=True))
    buffers = {
        name: buffer
        for name, buffer in signature.inputs_to_buffers.items()
        if buffer in signature.buffers_to_mutate.values()
    }
    read = {
        node.name for spec, node in returned if spec.kind is not OutputKind.BUFFER_MUTATION for node in _ancestors(node)
    }
    changes = {spec.target: node for spec, node in returned if spec.kind is OutputKind.BUFFER_MUTATION}
    while further := {buffer for name, buffer in buffers.items() if name in read} & changes.keys():
        for buffer in further:
            read |= {node.name for node in _ancestors(changes.pop(buffer))}
    if changes:
        remaining = [
            (spec, node)
            for spec, node in returned
            if spec.target not in changes or spec.kind is not OutputKind.BUFFER_MUTATION
        ]
        signature.output_specs[:] = [spec for spec, _ in remaining]
        end.args = (tuple(node for _, node in remaining),)
        program.graph.eliminate_dead_code()
        program.graph_module.recompile()


def _ancestors(node: object) -> set[fx.Node]:
    """A node and all nodes that it depends on."""
    ancestors: set[fx.Node] = set()
    stack = [node] if isinstance(node, fx.Node) else []
    while stack:
        if (last := stack.pop()) not in ancestors:
            ancestors.add(last)
            stack += last.all_input_nodes
    return ancestors


def _resolve_derived(where: str, axis: str, expression: sympy.Expr, requested: Dim, resolved: dict) -> None:
    fixed = {symbol: extent for symbol, extent in resolved.items() if isinstance(extent, int)}
    remaining = expression.subs(fixed)
    if isinstance(requested, str):
        if requested != str(expression):
            problem = f"{axis} follows from others ({expression}) and cannot be named '{requested}'"
            raise InputError(where, problem, "give its size, or omit the input's shape")
        return
    unknown = sorted(remaining.free_symbols, key=str)
    if not unknown:
        if int(remaining) != requested:
            raise InputError(where, f"{axis} is {requested}, but {expression} gives {remaining}", "give fitting shapes")
        return
    solutions = sympy.solve(remaining - requested, unknown[0]) if len(unknown) == 1 else []
    if len(solutions) != 1 or not solutions[0].is_Integer or solutions[0] < 1:
        raise InputError(where, f"{axis} must be of the form {expression}; {requested} is not", "give a fitting shape")
    resolved[unknown[0]] = int(solutions[0])


def tensor_spec(where: str, name: str, value: object, extents: Extents | None) -> TensorSpec:
    """The name, shape and type of a tensor of the program; raises InputError as ``signature``."""
    if not isinstance(value, Tensor):
        raise InputError(where, f"'{name}' is not a tensor", "export a module that takes and returns tensors only")
    if value.dtype not in DTYPES:
        remedy = "export with another dtype"
        if value.is_complex():
            remedy = (
                "take and return pairs of real numbers: torch.view_as_complex(x) and torch.view_as_real(y) in forward()"
            )
        raise InputError(where, f"'{name}' has dtype {value.dtype}, which TVM lacks", remedy)
    shape = tuple(_extent(extent, extents or {}) for extent in value.shape)
    return TensorSpec(name=name, relax_name=name, shape=shape, dtype=DTYPES[value.dtype])


def _extent(extent: int | torch.SymInt, extents: Extents) -> Dim:
    if isinstance(extent, int):
        return extent
    resolved = {
        symbol: sympy.Symbol(size, integer=True) if isinstance(size, str) else size for symbol, size in extents.items()
    }
    expression = extent.node.expr.subs(resolved)
    return int(expression) if expression.is_Integer else str(expression)


def _output_names(program: ExportedProgram, count: int) -> list[str]:
    tree = pytree.tree_unflatten(range(count), program.call_spec.out_spec)
    paths, _ = pytree.tree_flatten_with_path(tree)
    names = []
    for path, _leaf in paths:
        parts = [str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in path]
        # An index alone is not a name; after a key or a field it is part of one.
        names.append("_".join(parts if parts and not parts[0].isdigit() else ["output", *parts]))
    return names


def _index_ranges(program: ExportedProgram) -> dict[str, tuple[int, int]]:
    """The least and the greatest value of the integer inputs that select rows of a table of fixed size."""
    users = {
        spec.arg.name
        for spec in program.graph_signature.input_specs
        if spec.kind is InputKind.USER_INPUT and isinstance(spec.arg, TensorArgument)
    }
    rows: dict[str, int] = {}
    least: dict[str, int] = {}
    for node in program.graph.nodes:
        for index, extent in _lookups(node):
            source = index
            while source.op == "call_function" and operator_name(source) in _VALUE_PRESERVING_OPS:
                source = source.args[0]
            if source.op == "placeholder" and source.name in users and isinstance(extent, int):
                rows[source.name] = min(extent, rows.get(source.name, extent))
                low = -extent if operator_name(node) in _COUNTS_FROM_THE_END else 0
                least[source.name] = max(low, least.get(source.name, low))
    return {name: (least[name], extent - 1) for name, extent in rows.items()}


_COUNTS_FROM_THE_END = ("index", "select")
"""Lookups that take negative indices."""


def _lookups(node: fx.Node) -> list[tuple[fx.Node, int | torch.SymInt]]:
    """The index tensors of a lookup, each with the size of the indexed axis."""
    if node.op != "call_function":
        return []
    operator = operator_name(node)
    if operator == "embedding":
        return [(node.args[1], node.args[0].meta["val"].shape[0])]
    if operator in ("embedding_bag", "_embedding_bag"):
        return [(node.args[1], node.args[0].meta["val"].shape[0])]
    if operator in ("index_select", "gather"):
        return [(node.args[2], node.args[0].meta["val"].shape[node.args[1]])]
    if operator == "select" and isinstance(item := node.args[2], fx.Node) and operator_name(item) == "item":
        return [(item.args[0], node.args[0].meta["val"].shape[node.args[1]])]
    if operator == "index":
        shape = node.args[0].meta["val"].shape
        return [
            (index, shape[axis])
            for axis, index in enumerate(node.args[1])
            if isinstance(index, fx.Node) and not index.meta["val"].dtype.is_floating_point
            if index.meta["val"].dtype is not torch.bool
        ]
    return []


def operator_name(node: fx.Node) -> str:
    """``embedding`` for ``aten.embedding.default``."""
    return getattr(getattr(node.target, "overloadpacket", node.target), "__name__", "").partition(".")[0]


def dtype_name(node: fx.Node) -> str:
    """The element type of a node's tensor, as Relax names it."""
    return str(node.meta["val"].dtype).removeprefix("torch.")


def graphs(program: ExportedProgram) -> list[fx.Graph]:
    """The program's graph and those of its branches."""
    return [module.graph for module in program.graph_module.modules() if isinstance(module, fx.GraphModule)]


def calls(program: ExportedProgram) -> list[fx.Node]:
    """The operator calls of the program and its branches, in order."""
    return [node for graph in graphs(program) for node in graph.nodes if node.op == "call_function"]
