"""Compile an imported model for this machine and run it."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import tvm

from tests.unoptimised import unoptimised_machine
from tvmake.artifact.states import initial_states
from tvmake.frontend.imported import ImportedModel


def run_compiled(model: ImportedModel, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Outputs of the first run, in the signature's order."""
    return next(run_sequence(model, [inputs]))


def run_sequence(model: ImportedModel, samples: Iterable[Sequence[np.ndarray]]) -> Iterator[list[np.ndarray]]:
    """Outputs of consecutive runs, in the signature's order; every argument must match main's annotation exactly."""
    main, signature = model.module["main"], model.signature
    assert [var.name for var in main.params] == [*(spec.relax_name for spec in signature.arguments), *model.params]
    machine = unoptimised_machine(model.module)
    weights = [_tensor(p.numpy() if hasattr(p, "numpy") else p) for p in model.params.values()]
    states: list[tvm.runtime.Tensor] | None = None
    for inputs in samples:
        if states is None:
            named = dict(zip((spec.name for spec in signature.inputs), inputs, strict=True))
            states = [_tensor(value) for value in initial_states(signature, named).values()]
        returned = machine["main"](*map(_tensor, inputs), *states, *weights)
        results = [returned] if isinstance(returned, tvm.runtime.Tensor) else list(returned)
        assert len(results) == len(signature.results)
        states = results[len(signature.outputs) :]
        yield [output.numpy() for output in results[: len(signature.outputs)]]


def _tensor(value: np.ndarray) -> tvm.runtime.Tensor:
    return tvm.runtime.tensor(np.array(value, order="C"))
