"""Networks of one function, and what was imported, run on the CPU."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from torch import Tensor, nn

from tests.unoptimised import UNOPTIMISED
from tvmake.frontend.imported import ImportedModel


class Of(nn.Module):
    """A network that computes a function."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        """The function's result."""
        return self.function(x)


def outputs(imported: ImportedModel, *inputs: np.ndarray) -> list[np.ndarray]:
    """The outputs of an imported network, whose parameters follow its inputs."""
    machine = tvm.relax.VirtualMachine(tvm.compile(imported.module, target=UNOPTIMISED), tvm.cpu())
    names = [str(parameter.name) for parameter in imported.module["main"].params[len(inputs) :]]
    arguments = [*map(tvm.runtime.tensor, inputs), *(imported.params[name] for name in names)]
    result: Any = machine["main"](*arguments)
    return [one.numpy() for one in ([result] if hasattr(result, "numpy") else result)]
