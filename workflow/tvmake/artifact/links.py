"""Links of a package with several functions: outputs of one function that others take as an input or a state of theirs.

The decoder of an encoder-decoder attends to keys and values that another function computes once, and a prompt's network gives the cache with
which the decoder begins. In a session, such an output is the next value of each input or state of its name, until it is given again.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from tvmake.artifact.signature import Signature, StateSpec, TensorSpec
from tvmake.artifact.state_names import NUMBER, insert_numbers, name_pattern
from tvmake.artifact.states import LENGTH, LENGTH_DTYPE, StateKey, is_length, state_key
from tvmake.artifact.tensor_file import numpy_dtype
from tvmake.errors import InputError

Links = Mapping[str, Mapping[str, str]]
"""By function: its outputs with the inputs or states of others; ``%d`` in both names matches a number."""


def resolve_links(
    links: Links, signatures: Mapping[str, Signature], where: str = "", *, has_sizes: bool = True
) -> dict[str, dict[str, str]]:
    """The links of each function without ``%d``.

    Args:
        signatures: those of the functions, by name.
        where: the key before that of the links, for messages.
        has_sizes: whether shapes and types of outputs are known.

    Raises:
        InputError: there is no such function, output, input or state, or an output does not fit.
    """
    resolved: dict[str, dict[str, str]] = {}
    for function, pairs in links.items():
        key = f"{where}links.{function}"
        if function not in signatures:
            raise InputError(key, f"there is no function '{function}'", f"the functions are {', '.join(signatures)}")
        outputs = {spec.name: spec for spec in signatures[function].outputs}
        for given, taken in pairs.items():
            if given.count(NUMBER) != taken.count(NUMBER):
                problem = f"'{given}' and '{taken}' have different numbers of {NUMBER}"
                raise InputError(key, problem, f"write {NUMBER} in both, for the same number")
            pattern = name_pattern(given)
            matched = [(name, match.groups()) for name in outputs if (match := pattern.fullmatch(name))]
            if not matched:
                problem = f"'{function}' has no output '{given}'"
                raise InputError(key, problem, f"its outputs are {', '.join(outputs) or 'none'}")
            for name, numbers in matched:
                target = insert_numbers(taken, numbers)
                _check(key, function, outputs[name], target, signatures, has_sizes)
                resolved.setdefault(function, {})[name] = target
    return resolved


def resolve_names(names: Sequence[str], signatures: Mapping[str, Signature], where: str = "") -> tuple[str, ...]:
    """Names of states without ``%d``, and those of the states that count their rows.

    Raises:
        InputError: no function has such a state.
    """
    states = list(dict.fromkeys(state.name for signature in signatures.values() for state in signature.states))
    resolved: list[str] = []
    for name in names:
        matched = [state for state in states if name_pattern(name).fullmatch(state.removeprefix(LENGTH))]
        if not matched:
            remedy = f"the states are {', '.join(states)}" if states else "no function keeps a state"
            raise InputError(f"{where}separate_states", f"no function has a state '{name}'", remedy)
        resolved += matched
    return tuple(dict.fromkeys(resolved))


def _check(
    where: str, function: str, output: TensorSpec, target: str, signatures: Mapping[str, Signature], has_sizes: bool
) -> None:
    """Refuse an output that no other function takes, or that one cannot take."""
    takers = [(name, spec) for name, spec in targets(target, signatures) if name != function]
    if not takers:
        names = [
            spec.name for name, signature in signatures.items() if name != function for spec in signature.arguments
        ]
        remedy = f"name one of {', '.join(dict.fromkeys(names)) or 'none'}"
        raise InputError(where, f"no other function has an input or a state '{target}'", remedy)
    for name, spec in takers if has_sizes else ():
        shape = spec.of_source.shape if isinstance(spec, StateSpec) else spec.shape
        fits = len(shape) == len(output.shape) and all(
            left == right for left, right in zip(shape, output.shape, strict=True) if {type(left), type(right)} == {int}
        )
        if output.dtype != spec.dtype or not fits:
            ours, theirs = (
                f"{dtype}{list(extents)}" for dtype, extents in ((output.dtype, output.shape), (spec.dtype, shape))
            )
            problem = f"'{output.name}' is {ours}, and '{target}' of '{name}' takes {theirs}"
            raise InputError(where, problem, "name an output that has its type and shape")


def targets(name: str, signatures: Mapping[str, Signature]) -> Iterator[tuple[str, TensorSpec]]:
    """The functions' inputs and states of a name, each with its function."""
    for function, signature in signatures.items():
        yield from ((function, spec) for spec in signature.arguments if spec.name == name)


def link_values(
    name: str, value: np.ndarray, signatures: Mapping[str, Signature], separate: Collection[str] = ()
) -> dict[StateKey, np.ndarray]:
    """The values of a session after a function gave the value of an input or a state of others.

    Args:
        separate: names of states that each function has for itself.

    Raises:
        InputError: a function takes it in another size.
    """
    value = value.copy()
    value.flags.writeable = False  # the caller has the output too
    values: dict[StateKey, np.ndarray] = {}
    for function, spec in targets(name, signatures):
        owner = function if name in separate else ""
        if isinstance(spec, StateSpec) and spec.source_shapes is not None:
            values |= _buffer(function, spec, value, signatures[function], owner)
            continue
        key = state_key(spec, owner)
        if not key.fits(value.shape):
            raise _misfit(function, spec, value)
        values[key] = value
    return values


def _buffer(
    function: str, state: StateSpec, value: np.ndarray, signature: Signature, owner: str
) -> dict[StateKey, np.ndarray]:
    """The buffer of a state with these rows, and the number of rows."""
    source = state.of_source.shape
    sizes = [extent if isinstance(extent, int) else size for extent, size in zip(state.shape, value.shape, strict=True)]
    lengths = {
        str(declared): size
        for declared, extent, size in zip(source, state.shape, value.shape, strict=True)
        if declared != extent
    }
    for name, size in lengths.items():
        most = signature.bounds.get(name, (0, None))[1]
        if most is not None and size > most:
            problem = f"'{state.name}' of '{function}' would have {name} {size}, and the package takes up to {most}"
            raise InputError("states", problem, f"compile it for more: `dims: {{{name}: {{max: {size}}}}}`")
    fixed = zip(source, state.shape, value.shape, strict=True)
    if any(declared == extent and isinstance(extent, int) and extent != size for declared, extent, size in fixed):
        raise _misfit(function, state, value)
    buffer = np.zeros(sizes, numpy_dtype(state.dtype))
    buffer[tuple(slice(size) for size in value.shape)] = value
    counts = {
        state_key(spec): np.zeros([lengths[str(spec.shape[0])]], LENGTH_DTYPE)
        for spec in signature.states
        if is_length(spec) and spec.shape[0] in lengths
    }
    return {state_key(state, owner): buffer, **counts}


def _misfit(function: str, spec: TensorSpec, value: np.ndarray) -> InputError:
    problem = (
        f"'{spec.name}' of '{function}' takes {list(spec.shape)}, and another function gave it as {list(value.shape)}"
    )
    return InputError("states", problem, "run the functions on inputs of one size")
