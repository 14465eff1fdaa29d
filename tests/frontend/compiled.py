"""Compile an imported model for this machine and run it."""

from collections.abc import Sequence

import numpy as np
import tvm

from tests.unoptimised import unoptimised_machine
from tvmake.frontend.imported import ImportedModel


def run_compiled(model: ImportedModel, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Outputs in the signature's order; every argument must match main's annotation exactly."""
    main = model.module["main"]
    assert [var.name for var in main.params] == [
        *(spec.relax_name for spec in model.signature.inputs),
        *model.params,
    ]
    machine = unoptimised_machine(model.module)
    values = [*inputs, *(np.asarray(p.numpy() if hasattr(p, "numpy") else p) for p in model.params.values())]
    returned = machine["main"](*(tvm.runtime.tensor(np.array(value, order="C")) for value in values))
    outputs = [returned] if isinstance(returned, tvm.runtime.Tensor) else list(returned)
    assert len(outputs) == len(model.signature.outputs)
    return [output.numpy() for output in outputs]
