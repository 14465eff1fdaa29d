"""Which inputs of a network are states, and the outputs with their next values."""

from collections.abc import Mapping

from tvmake.artifact.signature import Signature, StateSpec, TensorSpec
from tvmake.artifact.state_names import NUMBER, insert_numbers, kept_in_place, name_pattern
from tvmake.errors import InputError


def state_pairs(signature: Signature, state: Mapping[str, str], where: str) -> list[StateSpec]:
    """The states, in the order of the inputs.

    Args:
        state: for each input that is a state, the output with its next value; ``%d`` in both matches a number.
        where: the source, for messages.

    Raises:
        InputError: the network has no such input or output, they do not fit each other, or no output remains.
    """
    pairs = _pairs(signature, state, where)
    return [_fit(signature.inputs[start], signature.outputs[end], (start, end), where) for start, end in pairs]


def without_states(
    declared: Signature, state: Mapping[str, str], where: str, *, writes_inputs: bool = False
) -> Signature:
    """The inputs and outputs that a package's caller has, and the states, whose next values are not compared with them.

    Args:
        declared: what the source states, whose outputs may have no sizes.
        where: the config's key.
        writes_inputs: whether the source may write to inputs, which ``state`` maps to themselves.

    Raises:
        InputError: the network has no such input or output, or no output remains.
    """
    in_place = kept_in_place(state, (spec.name for spec in declared.inputs)) if writes_inputs else []
    pairs = _pairs(declared, {given: returned for given, returned in state.items() if given not in in_place}, where)
    left = [
        tuple(spec for index, spec in enumerate(specs) if index not in {pair[side] for pair in pairs})
        for side, specs in enumerate((declared.inputs, declared.outputs))
    ]
    inputs = tuple(spec for spec in left[0] if spec.name not in in_place)
    fed = [
        StateSpec(**declared.inputs[start].model_dump(), next=declared.outputs[end], places=(start, end))
        for start, end in pairs
    ]
    written = [StateSpec(**spec.model_dump(), next=spec) for spec in left[0] if spec.name in in_place]
    return declared.model_copy(update={"inputs": inputs, "outputs": left[1], "states": (*fed, *written)})


def _pairs(signature: Signature, state: Mapping[str, str], where: str) -> list[tuple[int, int]]:
    """The places of the states' inputs and outputs, in the order of the inputs."""
    inputs = {spec.name: index for index, spec in enumerate(signature.inputs)}
    outputs = {spec.name: index for index, spec in enumerate(signature.outputs)}
    found: dict[int, int] = {}
    for given, returned in state.items():
        pattern = name_pattern(given)
        matched = [(name, match.groups()) for name in inputs if (match := pattern.fullmatch(name))]
        if not matched:
            raise InputError(where, f"it has no input '{given}' for a state", _choices("inputs", inputs))
        if returned.count(NUMBER) != given.count(NUMBER):
            problem = f"'{given}' and '{returned}' have different numbers of {NUMBER}"
            raise InputError(where, problem, f"write {NUMBER} in both, for the same number")
        for name, numbers in matched:
            output = insert_numbers(returned, numbers)
            if output not in outputs:
                problem = f"it has no output '{output}' for the next value of state '{name}'"
                raise InputError(where, problem, _choices("outputs", outputs))
            if found.get(inputs[name], outputs[output]) != outputs[output]:
                raise InputError(where, f"state '{name}' has two next values", "name it once")
            if outputs[output] in found.values() and inputs[name] not in found:
                raise InputError(where, f"output '{output}' is the next value of two states", "give each its own")
            found[inputs[name]] = outputs[output]
    if found and len(found) == len(outputs):
        problem = f"every output is the next value of a state ({', '.join(outputs)})"
        raise InputError(where, problem, "leave one output to the caller")
    return sorted(found.items())


def _choices(what: str, names: Mapping[str, int]) -> str:
    return f"its {what} are {', '.join(names)}; correct `state: {{INPUT: OUTPUT}}`"


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
        raise InputError(
            where, problem, "name the output that has the input's type and shape: `state: {INPUT: OUTPUT}`"
        )
    return StateSpec(**given.model_dump(), next=returned, places=places)
