"""Run what was imported, on the CPU."""

from typing import Any

import numpy as np
import tvm

from tests.unoptimised import UNOPTIMISED
from tvmake.frontend.imported import ImportedModel


def outputs(imported: ImportedModel, *inputs: np.ndarray) -> list[np.ndarray]:
    """The outputs of an imported network, whose parameters follow its inputs."""
    machine = tvm.relax.VirtualMachine(tvm.compile(imported.module, target=UNOPTIMISED), tvm.cpu())
    names = [str(parameter.name) for parameter in imported.module["main"].params[len(inputs) :]]
    arguments = [*map(tvm.runtime.tensor, inputs), *(imported.params[name] for name in names)]
    result: Any = machine["main"](*arguments)
    return [one.numpy() for one in ([result] if hasattr(result, "numpy") else result)]
