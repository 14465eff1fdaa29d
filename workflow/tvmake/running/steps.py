"""The inputs of several steps of a package that keeps states."""

from collections.abc import Mapping

import numpy as np

from tvmake.artifact.signature import Signature
from tvmake.errors import InputError
from tvmake.running.inputs import Arrays, Fill, match_inputs


def step_inputs(
    signature: Signature,
    given: Mapping[str, np.ndarray],
    steps: int | None,
    fill: Fill | None,
    sizes: Mapping[str, int] | None = None,
) -> list[Arrays]:
    """All inputs of each step, as :func:`tvmake.running.inputs.match_inputs` returns those of one.

    Args:
        given: arrays by input; one with one more axis than its input has its values for each step, others are the same in each.
        steps: None for a single run.
        fill: values of missing inputs; random ones differ from step to step.

    Raises:
        InputError: an array has another number of steps, or as for one step.
    """
    if steps is None:
        return [match_inputs(signature, given, fill, sizes=sizes)]
    ranks = {spec.name: len(spec.shape) for spec in signature.inputs}
    by_step = {name for name, array in given.items() if name in ranks and array.ndim == ranks[name] + 1}
    for name in sorted(by_step):
        if (count := len(given[name])) != steps:
            raise InputError(f"input '{name}'", f"has values for {count} steps, not {steps}", f"write --steps {count}")
    return [
        match_inputs(
            signature,
            {name: array[number] if name in by_step else array for name, array in given.items()},
            fill,
            seed=number,
            sizes=sizes,
        )
        for number in range(steps)
    ]
