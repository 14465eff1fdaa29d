"""Networks of one function, and what was imported, run on the CPU."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import tvm
from torch import Tensor, nn

from tests.unoptimised import UNOPTIMISED
from tvmake.codegen.generating import lower_and_generate
from tvmake.config.requests.building import BuildRequest
from tvmake.config.target import TargetConfig
from tvmake.frontend.imported import ImportedModel
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.importer import read
from tvmake.quantize.precision import PrecisionConfig
from tvmake.targets.resolve import tvm_target
from tvmake.transform.graph import transform
from tvmake.transform.options import TransformRequest


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


def as_built(function: Callable[..., Any], values: Tensor) -> np.ndarray:
    """What a network of one function gives when it is transformed, fused and scheduled as packages are."""
    imported = read(torch.export.export(Of(function), (values,)), ImportOptions(source="net", trusted=True))
    module, _ = transform(imported.module, imported.params, TransformRequest(precision=PrecisionConfig(base="float32")))
    config = TargetConfig(kind="llvm")
    request = BuildRequest(model="net", precision="float32", target_name="t", target=config)
    _, executable = lower_and_generate(module, tvm_target(config, "targets.t"), request, 1)
    result: Any = tvm.relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(values.numpy()))
    return result.numpy()


def assert_as_pytorch_has_it(function: Callable[..., Any], matrix: Tensor) -> None:
    """What is imported of a function of a matrix, by what PyTorch computes: a tensor, or several."""
    expected = function(matrix)
    imported = read(torch.export.export(Of(function), (matrix,)), ImportOptions(source="net"))
    wanted = expected if isinstance(expected, tuple) else [expected]
    for one, other in zip(outputs(imported, matrix.numpy()), wanted, strict=True):
        np.testing.assert_allclose(one, other.numpy(), rtol=1e-3, atol=1e-4)
