"""States: inputs of a network whose next value is one of its outputs. A package keeps them from run to run."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tvmake.artifact.signature import Signature, StateSpec, TensorSpec
from tvmake.errors import InputError
from tvmake.frontend.imported import ImportedModel
from tvmake.frontend.relax_fixes import with_main

import tvm  # isort: skip
from tvm import relax  # isort: skip

NUMBER = "%d"
"""The part of a name that stands for a number."""


def declare_states(imported: ImportedModel, state: Mapping[str, str], where: str) -> ImportedModel:
    """The network with the states' values behind its inputs, and their next values behind its outputs.

    Args:
        state: for each input that is a state, the output with its next value; ``%d`` in both stands for a number.
        where: the source, for messages.

    Raises:
        InputError: the network has no such input or output, they do not fit each other, or no output remains.
    """
    if not state:
        return imported
    signature = imported.signature
    pairs = _pairs(signature, state, where)
    names = [(signature.inputs[start].name, signature.outputs[end].name) for start, end in pairs]
    states = tuple(_fit(signature.inputs[start], signature.outputs[end], (start, end), where) for start, end in pairs)
    left = [index for index in range(len(signature.outputs)) if index not in {end for _, end in pairs}]
    if not left:
        problem = f"every output is the next value of a state ({', '.join(output for _, output in names)})"
        raise InputError(where, problem, "leave one output to the caller: take it out of `state`")
    free = [index for index in range(len(signature.inputs)) if index not in {start for start, _ in pairs}]
    return replace(
        imported,
        module=_reorder(imported, [*free, *(start for start, _ in pairs)], [*left, *(end for _, end in pairs)]),
        signature=signature.model_copy(
            update={
                "inputs": tuple(signature.inputs[index] for index in free),
                "outputs": tuple(signature.outputs[index] for index in left),
                "states": states,
            }
        ),
    )


def _pairs(signature: Signature, state: Mapping[str, str], where: str) -> list[tuple[int, int]]:
    """The places of the states' inputs and outputs, in the order of the inputs."""
    inputs = {spec.name: index for index, spec in enumerate(signature.inputs)}
    outputs = {spec.name: index for index, spec in enumerate(signature.outputs)}
    found: dict[int, int] = {}
    for given, returned in state.items():
        pattern = re.compile(r"(\d+)".join(map(re.escape, given.split(NUMBER))))
        matched = [(name, match.groups()) for name in inputs if (match := pattern.fullmatch(name))]
        if not matched:
            raise InputError(where, f"it has no input '{given}' for a state", _choices("inputs", inputs))
        if returned.count(NUMBER) != given.count(NUMBER):
            problem = f"'{given}' and '{returned}' have different numbers of {NUMBER}"
            raise InputError(where, problem, f"write {NUMBER} in both, for the same number")
        for name, numbers in matched:
            output = _insert(returned, numbers)
            if output not in outputs:
                problem = f"it has no output '{output}' for the next value of state '{name}'"
                raise InputError(where, problem, _choices("outputs", outputs))
            if found.get(inputs[name], outputs[output]) != outputs[output]:
                raise InputError(where, f"state '{name}' has two next values", "name it once in `state`")
            if outputs[output] in found.values() and inputs[name] not in found:
                raise InputError(where, f"output '{output}' is the next value of two states", "give each its own")
            found[inputs[name]] = outputs[output]
    return sorted(found.items())


def _insert(pattern: str, numbers: Sequence[str]) -> str:
    first, *rest = pattern.split(NUMBER)
    return first + "".join(number + part for number, part in zip(numbers, rest, strict=True))


def _choices(what: str, names: Mapping[str, int]) -> str:
    return f"its {what} are {', '.join(names)}; correct `state`"


def _fit(given: TensorSpec, returned: TensorSpec, places: tuple[int, int], where: str) -> StateSpec:
    """The state of an input and an output.

    Raises:
        InputError: the output cannot be the next input.
    """
    fits = given.dtype == returned.dtype and len(given.shape) == len(returned.shape)
    if not fits or not all(
        isinstance(taken, str) or taken == extent for taken, extent in zip(given.shape, returned.shape, strict=True)
    ):
        described = [f"{spec.dtype}[{', '.join(map(str, spec.shape))}]" for spec in (given, returned)]
        problem = f"state '{given.name}' takes {described[0]}, and its next value '{returned.name}' is {described[1]}"
        raise InputError(where, problem, "name the output that has the input's type and shape under `state`")
    return StateSpec(**given.model_dump(), next=returned, places=places)


def _reorder(imported: ImportedModel, inputs: Sequence[int], outputs: Sequence[int]) -> "tvm.IRModule":
    """The network with its inputs and outputs in another order."""
    main, count = imported.module["main"], len(imported.signature.inputs)
    *blocks, last = main.body.blocks
    returned = main.body.body
    tuples = [
        binding
        for binding in last.bindings
        if binding.var.same_as(returned) and isinstance(getattr(binding, "value", None), relax.Tuple)
    ]
    kept = [binding for binding in last.bindings if not any(binding.same_as(found) for found in tuples)]
    count_of_results = len(main.ret_ty.fields)
    fields = (
        tuples[0].value.fields if tuples else [relax.TupleGetItem(returned, index) for index in range(count_of_results)]
    )
    ordered = relax.Var("results", relax.TupleType([main.ret_ty.fields[index] for index in outputs]))
    kept.append(relax.VarBinding(ordered, relax.Tuple([fields[index] for index in outputs])))
    block = relax.DataflowBlock(kept) if isinstance(last, relax.DataflowBlock) else relax.BindingBlock(kept)
    parameters = [*(main.params[index] for index in inputs), *main.params[count:]]
    body = relax.SeqExpr([*blocks, block], ordered)
    changed = with_main(imported.module, parameters, body, ordered.ty)
    return relax.transform.Normalize()(changed)
