"""State of PyTorch programs: tensors of the module, and inputs, that ``forward`` writes to.

``run_decompositions`` makes the last value of each an output. A package keeps those of the module's tensors from run to run, and
begins with their values in the program; an input is one of them if the config says so (``state: {cache: cache}``).
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor, fx
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature, InputKind, InputSpec, OutputKind

from tvmake.artifact.signature import StateSpec, TensorSpec
from tvmake.errors import InputError
from tvmake.frontend.torch import program as exported

STORED = (InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
WRITES = (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION)


@dataclass(frozen=True)
class StoredState:
    """A tensor of the module that ``forward`` writes to."""

    spec: StateSpec
    initial: np.ndarray
    """Its value in the program."""


@dataclass(frozen=True)
class Written:
    """A buffer or an input that ``forward`` writes to."""

    name: str
    is_input: bool


def declare_written_tensors(where: str, program: ExportedProgram) -> None:
    """Make buffers of the tensors that ``forward`` writes to and that are not declared as such, in place.

    torch.export lifts a tensor in an attribute, a list or a cache object as a constant, which must not change; and it lifts a buffer
    that such an object refers to twice.

    Args:
        program: before ``run_decompositions``.

    Raises:
        InputError: a tensor that ``forward`` writes to shares a part of its memory with another.
    """
    nodes = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    specs = program.graph_signature.input_specs
    targets = set(program.graph_signature.buffers_to_mutate.values())
    written = {spec.arg.name for spec in specs if spec.target in targets}
    written |= {node.name for call in exported.calls(program) for node in _written_placeholders(call)}
    if not any(spec.kind in STORED and spec.arg.name in written for spec in specs):
        return
    first: dict[tuple[object, ...], int] = {}
    merged: dict[int, int] = {}
    for number, spec in enumerate(specs):
        if spec.kind in STORED and isinstance(value := _value(program, spec), Tensor) and value.numel():
            key = value.untyped_storage().data_ptr(), value.storage_offset(), value.shape, value.stride(), value.dtype
            merged[number] = first.setdefault(key, number)
    same = {number: kept for number, kept in merged.items() if kept != number}
    for number, kept in same.items():
        nodes[specs[number].arg.name].replace_all_uses_with(nodes[specs[kept].arg.name])
        written |= {specs[kept].arg.name} if specs[number].arg.name in written else set()
    for number, spec in enumerate(specs):
        if spec.kind is InputKind.CONSTANT_TENSOR and spec.arg.name in written and number not in same:
            specs[number] = replace(spec, kind=InputKind.BUFFER, persistent=False)
    for number in sorted(same, reverse=True):
        program.graph.erase_node(nodes[specs.pop(number).arg.name])
    program.graph_module.recompile()
    _check_memory(where, program, written)


def _check_memory(where: str, program: ExportedProgram, written: Collection[str]) -> None:
    owners: dict[int, InputSpec] = {}
    for spec in program.graph_signature.input_specs:
        value = _value(program, spec) if spec.target is not None else None
        if not isinstance(value, Tensor) or not value.numel():
            continue
        owner = owners.setdefault(value.untyped_storage().data_ptr(), spec)
        if owner is not spec and {owner.arg.name, spec.arg.name} & set(written):
            problem = f"a call changes '{spec.target}' and '{owner.target}', which share memory"
            raise InputError(where, problem, "register one buffer, and take its part in forward(): self.cache[0]")


def _written_placeholders(call: fx.Node) -> Iterator[fx.Node]:
    """The placeholders that a call writes to, directly or through views."""
    schema = getattr(call.target, "_schema", None)
    for argument, value in zip(schema.arguments if schema else (), call.args, strict=False):
        node = value
        while argument.alias_info is not None and argument.alias_info.is_write and isinstance(node, fx.Node):
            if node.op == "placeholder":
                yield node
            node = node.args[0] if _is_view(node) else None


def _is_view(node: fx.Node) -> bool:
    """Whether a call returns a view of its first argument, or that argument itself."""
    returned = getattr(getattr(node.target, "_schema", None), "returns", ())
    return bool(node.args) and any(value.alias_info is not None for value in returned)


def _value(program: ExportedProgram, spec: InputSpec) -> object:
    stored = program.state_dict if spec.target in program.state_dict else program.constants
    return stored.get(spec.target)


def check_states(where: str, program: ExportedProgram, kept_inputs: Sequence[str]) -> None:
    """Refuse writes that a package could not keep.

    Args:
        program: without operators that change tensors in place.
        kept_inputs: the inputs that the config calls states.

    Raises:
        InputError: a call changes a parameter, or an input that is not a state.
    """
    graph = program.graph_signature
    if parameters := sorted(set(graph.parameters_to_mutate.values())):
        problem = f"a call changes the module's parameters: {', '.join(parameters)}"
        raise InputError(where, problem, "register what changes as a buffer: self.register_buffer(name, tensor)")
    inputs = [name for name in dict.fromkeys(graph.user_inputs_to_mutate.values()) if name not in kept_inputs]
    if inputs:
        raise InputError(
            where,
            f"a call changes its inputs in place: {', '.join(inputs)}",
            f"if that is the network's memory, set `state: {{{inputs[0]}: {inputs[0]}}}`; if not, copy the tensor first in"
            f" forward(): {inputs[0]} = {inputs[0]}.clone()",
        )


def stored_states(where: str, program: ExportedProgram) -> list[StoredState]:
    """The states of a program, in the order of its buffers.

    Raises:
        InputError: one has a type that TVM lacks.
    """
    written = set(program.graph_signature.buffers_to_mutate.values())
    nodes = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    found = []
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.BUFFER and spec.target in written:
            known = exported.tensor_spec(where, spec.target, nodes[spec.arg.name].meta["val"], None)
            value = TensorSpec(name=known.name, relax_name=spec.arg.name, shape=known.shape, dtype=known.dtype)
            following = value.model_copy(update={"relax_name": f"{spec.arg.name}_next"})
            tensor = _value(program, spec)
            assert isinstance(tensor, Tensor)
            found.append(StoredState(StateSpec(**value.model_dump(), next=following), tensor.detach().cpu().numpy()))
    return found


def expose_states(program: ExportedProgram) -> ExportedProgram:
    """The program with its states as inputs, before the others, and their next values as outputs, also before the others."""
    graph = program.graph_signature
    written = set(graph.buffers_to_mutate.values())
    if not written and not graph.user_inputs_to_mutate:
        return program
    read = {spec.target for spec in graph.input_specs} - written
    inputs = [
        replace(spec, kind=InputKind.USER_INPUT, target=None, persistent=None) if spec.target in written else spec
        for spec in graph.input_specs
    ]
    outputs = [
        replace(spec, kind=OutputKind.USER_OUTPUT, target=None) if spec.kind in WRITES else spec
        for spec in graph.output_specs
    ]
    return ExportedProgram(
        root=program.graph_module,
        graph=program.graph,
        graph_signature=ExportGraphSignature(inputs, outputs),
        state_dict={name: value for name, value in program.state_dict.items() if name in read},
        range_constraints=program.range_constraints,
        module_call_graph=program.module_call_graph,
        constants={name: value for name, value in program.constants.items() if name in read},
    )


def next_values(program: ExportedProgram) -> list[Written]:
    """The tensors whose next values precede the outputs, in order."""
    specs = [spec for spec in program.graph_signature.output_specs if spec.kind in WRITES]
    return [Written(str(spec.target), spec.kind is OutputKind.USER_INPUT_MUTATION) for spec in specs]
