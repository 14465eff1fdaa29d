"""Refuse programs that cannot be imported, before TVM sees them."""

import keyword
import re
from collections import Counter
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import free_symbols
from torch.utils import _pytree as pytree

from tvmake.errors import InputError
from tvmake.frontend.torch import program as exported
from tvmake.frontend.torch.constants import input_dependent_nodes

_EVAL = "call .eval() on the module before torch.export.export"

_RECURRENT = ("gru", "lstm", "rnn_relu", "rnn_tanh")

# Position in the operator's arguments of the training flag, or of the dropout probability.
_TRAINING_FLAG = {
    "batch_norm": 5,
    "native_batch_norm": 5,
    "cudnn_batch_norm": 5,
    "_native_batch_norm_legit": 5,
    "_native_batch_norm_legit_functional": 5,
    "dropout": 2,
    "dropout_": 2,
    "feature_dropout": 2,
    "alpha_dropout": 2,
    "feature_alpha_dropout": 2,
    "native_dropout": 2,
    "rrelu": 3,
    **dict.fromkeys(_RECURRENT, 6),
    "scaled_dot_product_attention": 4,
}


def refuse_training(where: str, program: ExportedProgram) -> None:
    """Refuse a program with batch norms or dropouts in training mode.

    Raises:
        InputError: lists these operators with their counts.
    """
    training: Counter[str] = Counter()
    fixed = set(program.graph.nodes) - input_dependent_nodes(program)
    for node in exported.calls(program):
        if node in fixed:
            continue  # weight standardisation
        operator = exported.operator_name(node)
        schema = getattr(node.target, "_schema", None)
        position = _TRAINING_FLAG.get(operator)
        if position is None or schema is None:
            continue
        names = [argument.name for argument in schema.arguments]
        if "norm" in operator and ("running_mean" not in names or _argument(node, names.index("running_mean")) is None):
            continue  # a norm without running statistics always uses those of its input
        if operator in _RECURRENT and not _argument(node, names.index("dropout")):
            continue  # in training they differ only by the dropout between layers
        value = _argument(node, position)
        if value is True or (isinstance(value, float) and value > 0):
            training[operator] += 1
    if training:
        listing = ", ".join(f"{operator} ({count}×)" for operator, count in sorted(training.items()))
        raise InputError(where, f"exported in training mode: {listing}", _EVAL)


def _argument(node: fx.Node, position: int) -> Any:
    """An argument of a node by its position in the schema; None if it is absent."""
    if position < len(node.args):
        return node.args[position]
    arguments = node.target._schema.arguments
    return node.kwargs.get(arguments[position].name) if position < len(arguments) else None


def mutated_constant_error(where: str, error: RuntimeError) -> InputError | None:
    """The refusal for PyTorch's error on a program that changes a constant; None for other errors."""
    match = re.search(r"Constant (\S+) is mutated in the forward method", str(error))
    if match is None:
        return None
    problem = f"a call changes a tensor that is stored in the module: {match[1]}"
    return InputError(where, problem, "register it as a buffer: self.register_buffer(name, tensor)")


def refuse_unreadable_state(where: str, program: ExportedProgram) -> None:
    """Refuse a program with parameters or buffers that PyTorch or TVM cannot use.

    Raises:
        InputError: a tensor is sparse, was created by ``torch.func`` during tracing, or has a Python keyword in its
            name, which PyTorch writes into generated code.
    """
    for name, tensor in {**program.state_dict, **program.constants}.items():
        if word := next(filter(keyword.iskeyword, name.split(".")), None):
            problem = f"'{name}' has '{word}' in its name, a Python keyword, and PyTorch cannot run such a program"
            raise InputError(where, problem, "rename that module and export again")
        if isinstance(tensor, torch.Tensor) and tensor.layout is not torch.strided:
            problem = f"'{name}' is a sparse tensor, which TVM lacks"
            raise InputError(where, problem, "make it dense (.to_dense()) and export again")
        if isinstance(tensor, torch.Tensor) and torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            problem = f"'{name}' is a tensor of torch.func (grad, jvp), which torch.export cannot trace there"
            raise InputError(where, problem, "write its computation explicitly in forward() and export again")


def refuse_half_precision(where: str, program: ExportedProgram) -> None:
    """Refuse a program with 16-bit weights or inputs, or with any 8-bit floats.

    Raises:
        InputError: names one of them, with their number.
    """
    values = ((node.name, node.meta.get("val")) for node in program.graph.nodes)
    small = [
        (name, value.dtype)
        for name, value in (*program.state_dict.items(), *program.constants.items(), *values)
        if isinstance(value, torch.Tensor) and value.is_floating_point() and value.element_size() == 1
    ]
    if small:
        name, dtype = small[0]
        raise InputError(
            where,
            f"contains {str(dtype).removeprefix('torch.')} (as '{name}'), which packages neither compute with nor store",
            "export the model before it is rounded; `precisions: [int8_weights]` stores weights in 8-bit integers, int8 computes in them",
        )
    tensors = {name: tensor.dtype for name, tensor in program.state_dict.items()}
    tensors |= {
        node.name: node.meta["val"].dtype
        for node in program.graph.find_nodes(op="placeholder")
        if isinstance(node.meta.get("val"), torch.Tensor)
    }
    half = sorted(name for name, dtype in tensors.items() if dtype in (torch.float16, torch.bfloat16))
    if half:
        problem = f"computes in half precision ({half[0]} and {len(half) - 1} more)" if len(half) > 1 else None
        raise InputError(
            where,
            problem or f"computes in half precision ({half[0]})",
            "export the model in float32 (.float()) and set `precisions: [float16]`",
        )


def refuse_random_numbers(where: str, program: ExportedProgram) -> None:
    """Refuse a program that draws random numbers in each call; TVM's importer would draw some of them only once.

    Raises:
        InputError: lists these operators with their counts.
    """
    random = Counter(str(node.target) for node in exported.calls(program) if node.users and _is_random(node))
    if random:
        listing = ", ".join(f"{operator} ({count}×)" for operator, count in sorted(random.items()))
        raise InputError(
            where, f"draws random numbers: {listing}", "remove them from forward(), or pass them as an input"
        )


_DRAW_IN_TRAINING = ("attention", "dropout", "gru", "lstm", "rnn", "rrelu")


def _is_random(node: fx.Node) -> bool:
    is_tagged = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
    # Dropouts, attention and recurrent layers draw in training only, which is refused elsewhere.
    return is_tagged and not any(word in exported.operator_name(node) for word in _DRAW_IN_TRAINING)


def refuse_shapes_of_data(where: str, program: ExportedProgram) -> None:
    """Refuse a program with tensors whose shapes depend on values.

    Raises:
        InputError: names the first operator that returns one, and an alternative.
    """
    inputs = [node.meta.get("val") for node in program.graph.find_nodes(op="placeholder")]
    known = {symbol for value in inputs if isinstance(value, torch.Tensor) for symbol in free_symbols(value)}
    for node in exported.calls(program):
        values = [value for value in pytree.tree_leaves(node.meta.get("val")) if isinstance(value, torch.Tensor)]
        if not any(free_symbols(value) - known for value in values):
            continue
        source = node.args[0] if exported.operator_name(node) == "getitem" else node
        name = exported.operator_name(source)
        remedy = next((remedy for word, remedy in _FIXED_SHAPES.items() if word in name), _FIXED_SHAPE)
        raise InputError(where, f"the shape that {source.target} returns depends on the data", remedy)


_FIXED_SHAPE = "give forward() outputs of a fixed shape: values beside a mask, the first k with topk, or fixed sizes"
_MASK = "keep all elements beside a mask: torch.where(mask, x, 0) for x[mask], (x * mask).sum() for x[mask].sum()"
_FIXED_SHAPES = {
    "nms": "return the boxes and scores, and remove overlapping ones after the network has run",
    "nonzero": "return the mask, or a fixed number of indices with topk",
    "bincount": "count n classes with torch.nn.functional.one_hot(values, n).sum(0) of the flattened values",
    "unique": "return the values, and count them after the network has run",
    "masked_select": _MASK,
    "index": _MASK,
}
"""Alternatives to operators, by a part of their names."""

_OUTSIDE = "compute it before or after the network, and pass its value as an input"
_ITERATES = (
    f"singular values and eigenvalues are iterated until they converge, and a package has no such loop: {_OUTSIDE}"
)
_FACTORS = (
    f"TVM has no such factorisation or matrix function; linear solves and inverses are supported. Otherwise {_OUTSIDE}"
)
_SPECIAL = f"no library or code generator of TVM has this special function: {_OUTSIDE}"
_COUNTS = f"TVM has no such operator: write it with comparisons and sums (torch.where, one_hot), or {_OUTSIDE}"
_GRADIENT = "gradients of convolutions, average pools and resizes are not supported; those of matmuls, activations and norms are"

WITHOUT_IMPORTER = {
    **dict.fromkeys(
        ("_linalg_svd", "_linalg_eigh", "linalg_eig", "_linalg_eigvals", "linalg_eigvals", "linalg_pinv"), _ITERATES
    ),
    **dict.fromkeys(
        ("linalg_qr", "geqrf", "linalg_lu", "lu_unpack", "linalg_householder_product", "ormqr", "linalg_matrix_exp", "cholesky_inverse"),
        _FACTORS,
    ),
    **dict.fromkeys(
        (
            "lgamma", "digamma", "polygamma", "special_zeta", "special_erfcx", "special_ndtri", "i0", "special_i0e", "special_i1", "special_i1e",
            "special_bessel_j0", "special_bessel_j1", "special_bessel_y0", "special_bessel_y1", "special_spherical_bessel_j0",
            "special_modified_bessel_i0", "special_modified_bessel_i1", "igamma", "igammac", "special_airy_ai",
        ),
        _SPECIAL,
    ),
    **dict.fromkeys(("frexp", "nextafter", "gcd", "lcm", "mode", "histc", "histogram", "segment_reduce"), _COUNTS),
    **dict.fromkeys(
        ("convolution_backward", "avg_pool2d_backward", "upsample_bilinear2d_backward", "upsample_nearest2d_backward"), _GRADIENT
    ),
}  # fmt: skip
"""Reasons and remedies for unsupported operators, by their names without overloads."""
