"""A part of a network as the JSON graph that CLML's runtime reads, with TVM's names.

``nodes`` are in order of execution: ``input`` for inputs, ``const`` for weights, ``kernel`` for layers. ``arg_nodes``
are the arguments, ``heads`` the results. Weights are arguments after the inputs; the graph does not store their values.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import tvm_ffi

from tvmake.ir.expressions import bindings, dtype_name, operator_name
from tvmake.targets.adreno_clml.patterns import shape_of

from tvm import relax  # isort: skip

GENERATOR = "relax.ext.openclml"
"""The function that TVM calls to compile functions whose ``Codegen`` is ``openclml``; the wheel has none."""

FACTORY = "tvmake.clml.create"
"""Creates a runtime module from a graph; defined in the OpenCL runtime library (``native/clml``)."""

WEIGHTS = "clml_weights"
"""Attribute of a function: how many of its last arguments are weights."""


def register() -> None:
    """Register :func:`generate` as the CLML code generator of TVM's ``RunCodegen``."""
    tvm_ffi.register_global_func(GENERATOR, generate, override=True)


def generate(functions: Sequence[Any], options: Mapping[str, Any], constants: Mapping[Any, str]) -> list[Any]:
    """A runtime module for each function, as TVM expects from external code generators.

    Raises:
        MachineError: the OpenCL runtime library must be compiled, and compilation fails.
    """
    create = tvm_ffi.get_global_func(FACTORY, allow_missing=True)
    if create is None:
        from tvmake.native.backend import opencl_library

        opencl_library()
        create = tvm_ffi.get_global_func(FACTORY)
    modules = []
    for function in functions:
        text, weights = graph_json(function)
        modules.append(create(str(function.attrs["global_symbol"]), text, weights))
    return modules


def graph_json(function: Any) -> tuple[str, list[str]]:
    """The graph of a function that calls composites, and the names of its weights."""
    writer = _GraphWriter()
    inputs = len(function.params) - int(function.attrs[WEIGHTS])
    for index, parameter in enumerate(function.params):
        kind = "input" if index < inputs else "const"
        writer.add(kind, f"weight{index - inputs}" if index >= inputs else f"input{index}", parameter)
    local: dict[Any, Any] = {}
    for binding in bindings(function):
        value = binding.value
        if isinstance(value, relax.Function):
            local[binding.var] = value
        elif isinstance(value, relax.Call):
            writer.add_layer(local[value.op], value, binding.var)
        elif isinstance(value, relax.Tuple):
            writer.tuples[binding.var] = list(value.fields)
        else:
            writer.index[binding.var] = writer.index[value]
    result = function.body.body
    results = list(result.fields) if isinstance(result, relax.Tuple) else writer.tuples.get(result, [result])
    return writer.text(results, len(function.params)), [
        f"weight{index}" for index in range(len(function.params) - inputs)
    ]


class _GraphWriter:
    """Collects the nodes of a graph."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.index: dict[Any, int] = {}
        self.tuples: dict[Any, list[Any]] = {}

    def add(self, op: str, name: str, value: Any, **fields: Any) -> None:
        """Add a node for a value."""
        attributes = {"dtype": [dtype_name(value.ty)], "shape": [shape_of(value)], **fields.pop("attrs", {})}
        self.index[value] = len(self.nodes)
        self.nodes.append({"op": op, "name": name, "attrs": attributes, **fields})

    def add_layer(self, composite: Any, call: Any, result: Any) -> None:
        """Add a node for a call of a composite."""
        # The values of the composite's parameters.
        arguments_by_param = dict(zip(composite.params, call.args, strict=True))
        operators = [binding.value for binding in bindings(composite) if isinstance(binding.value, relax.Call)]
        inner = {binding.var for binding in bindings(composite)}
        arguments = []
        for operator in operators:
            for argument in operator.args:
                for value in argument.fields if isinstance(argument, relax.Tuple) else [argument]:
                    if isinstance(value.ty, relax.TensorType) and value not in inner:
                        arguments.append(arguments_by_param.get(value, value))
        attributes: dict[str, Any] = {}
        for operator in operators:
            attributes |= _attributes(operator)
        if len(operators) > 1 and "pad_width" in attributes:
            top, bottom, left, right = attributes.pop("pad_width")
            attributes["padding"] = [top, left, bottom, right]
        entries = [[self.index[argument], 0, 0] for argument in arguments]
        attributes |= {"num_inputs": len(entries), "num_outputs": 1}
        self.add("kernel", str(composite.attrs["Composite"]), result, inputs=entries, attrs=attributes)

    def text(self, results: Sequence[Any], arguments: int) -> str:
        """The graph as JSON; equal graphs give equal bytes."""
        heads = [[self.index[result], 0, 0] for result in results]
        rows = list(range(len(self.nodes) + 1))
        return json.dumps(
            {"nodes": self.nodes, "arg_nodes": list(range(arguments)), "heads": heads, "node_row_ptr": rows},
            separators=(",", ":"),
        )


def _attributes(call: Any) -> dict[str, Any]:
    """The attributes of an operator for CLML, by TVM's names."""
    attrs = call.attrs
    match operator_name(call):
        case "nn.conv2d":
            return {
                **{name: _ints(getattr(attrs, name)) for name in ("strides", "padding", "dilation")},
                "groups": int(attrs.groups),
            }
        case "nn.pad":
            return {"pad_width": _ints(attrs.pad_width)[4:]}
        case "permute_dims":  # only within a depth to space
            return {"block_size": shape_of(call.args[0])[1]}
        case "image.resize2d":
            return {"align_corners": int(attrs.coordinate_transformation_mode == "align_corners")}
        case "nn.batch_norm":
            return {"axis": int(attrs.axis), "epsilon": float(attrs.epsilon)}
        case "nn.max_pool2d" | "nn.avg_pool2d":
            return {name: _ints(getattr(attrs, name)) for name in ("pool_size", "strides", "padding")}
        case "nn.softmax":
            return {"axis": int(attrs.axis)}
        case "nn.relu":
            return {"activation_type": "relu"}
        case "concat":
            return {"axis": int(attrs.axis) % len(shape_of(call))}
        case "clip":
            least, most = (float(getattr(bound, "value", bound)) for bound in call.args[1:])
            return {"a_min": least, "a_max": most, "activation_type": "relu6"}
    return {}


def _ints(values: Any) -> list[int]:
    return [int(value) for value in values]
