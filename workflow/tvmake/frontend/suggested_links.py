"""Outputs of a model's functions whose names say that other functions take them."""

from collections.abc import Mapping

from tvmake.artifact.signature import Signature, TensorSpec
from tvmake.artifact.state_names import NUMBER, insert_numbers, name_pattern
from tvmake.frontend.suggested_states import join_numbers, next_names

SAME = {"encoder_hidden_states": ("last_hidden_state", "encoder_out", "encoder_output")}
"""Inputs, and outputs of the same content that exporters name differently."""


def suggest_links(
    signatures: Mapping[str, Signature], states: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, str]]:
    """By function: the outputs that seem to be inputs or states of others; with ``%d`` for numbers where all layers have them.

    Args:
        signatures: those of the functions, by name, in which states are inputs and outputs.
        states: the states of each function.
    """
    links: dict[str, dict[str, str]] = {}
    given: set[str] = set()
    for function, signature in signatures.items():
        own = _next_values(signature, states.get(function, {}))
        free = {spec.name: spec for spec in signature.outputs if spec.name not in own}
        found: dict[str, str] = {}
        for other, there in signatures.items():
            for spec in there.inputs if other != function else ():
                if spec.name not in given and (output := _output_for(spec, free)) and output not in found:
                    found[output] = spec.name
        given |= {*found.values()}
        if found:
            links[function] = join_numbers(found)
    return links


def suggest_separate_states(signatures: Mapping[str, Signature], states: Mapping[str, Mapping[str, str]]) -> list[str]:
    """States that functions have in one type and shape though they are different networks, which take other inputs."""
    inputs: dict[tuple[object, ...], set[tuple[str, ...]]] = {}
    for function, signature in signatures.items():
        kept = [spec for spec in signature.inputs if _is_state(spec.name, states.get(function, {}))]
        others = tuple(spec.name for spec in signature.inputs if spec not in kept)
        for spec in kept:
            shape = tuple(extent if isinstance(extent, int) else None for extent in spec.shape)
            inputs.setdefault((spec.name, spec.dtype, shape), set()).add(others)
    return [str(name) for (name, *_), different in inputs.items() if len(different) > 1]


def _is_state(name: str, states: Mapping[str, str]) -> bool:
    return any(name_pattern(given).fullmatch(name) for given in states)


def _next_values(signature: Signature, states: Mapping[str, str]) -> set[str]:
    """The outputs that are next values of states."""
    return {
        insert_numbers(returned, match.groups()) if NUMBER in returned else returned
        for given, returned in states.items()
        for spec in signature.inputs
        if (match := name_pattern(given).fullmatch(spec.name))
    }


def _output_for(spec: TensorSpec, outputs: Mapping[str, TensorSpec]) -> str | None:
    """The output that seems to be an input's value."""
    for name in (spec.name, *SAME.get(spec.name, ()), *next_names(spec.name)):
        output = outputs.get(name)
        if output is not None and output.dtype == spec.dtype and len(output.shape) in (0, len(spec.shape)):
            return name
    return None
