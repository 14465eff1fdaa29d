"""Networks of one function, and runs of imported networks on the CPU."""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
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

    def forward(self, x: Tensor, *others: Tensor) -> Any:
        """The function's result."""
        return self.function(x, *others)


def outputs(imported: ImportedModel, *inputs: np.ndarray) -> list[np.ndarray]:
    """Run an imported network on inputs."""
    machine = tvm.relax.VirtualMachine(tvm.compile(imported.module, target=UNOPTIMISED), tvm.cpu())
    names = [str(parameter.name) for parameter in imported.module["main"].params[len(inputs) :]]
    arguments = [*map(tvm.runtime.tensor, inputs), *(imported.params[name] for name in names)]
    result: Any = machine["main"](*arguments)
    return [output.numpy() for output in ([result] if hasattr(result, "numpy") else result)]


class _Combined(nn.Module):
    """Several networks as one network with the same inputs and all outputs."""

    def __init__(self, networks: Iterable[nn.Module]):
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(output for network in self.networks for output in _flat(network(*inputs)))


class Cases:
    """Networks with the same inputs that are imported and compiled together, on the first request.

    PyTorch iterates over all its operators for each program that it decomposes, which takes most of the time of a
    network of one operator. If the networks cannot be imported together, halves of them are, down to a single one,
    whose own test then imports it and reports the error.

    Args:
        networks: by name; functions or modules.
        inputs: of each network.
    """

    def __init__(self, networks: Mapping[str, Callable[..., Any]], *inputs: Tensor):
        self.inputs = inputs
        self.networks = {
            name: (network if isinstance(network, nn.Module) else Of(network)).eval()
            for name, network in networks.items()
        }

    def expected(self, name: str) -> list[np.ndarray]:
        """PyTorch's outputs."""
        return [output.detach().numpy() for output in _flat(self.networks[name](*self.inputs))]

    def outputs(self, name: str) -> list[np.ndarray]:
        """The imported network's outputs."""
        if name in self._combined_outputs:
            return self._combined_outputs[name]
        return self._run(self.networks[name])

    @cached_property
    def _combined_outputs(self) -> dict[str, list[np.ndarray]]:
        return self._outputs_of([*self.networks])

    def _outputs_of(self, names: list[str]) -> dict[str, list[np.ndarray]]:
        try:
            results = iter(self._run(_Combined(self.networks[name] for name in names)))
        except Exception:  # noqa: BLE001  # the test of the single network reports the error
            middle = len(names) // 2
            return self._outputs_of(names[:middle]) | self._outputs_of(names[middle:]) if middle else {}
        return {name: [next(results) for _ in self.expected(name)] for name in names}

    def _run(self, network: nn.Module) -> list[np.ndarray]:
        imported = read(torch.export.export(network, self.inputs), ImportOptions(source="net"))
        return outputs(imported, *(value.numpy() for value in self.inputs))


def _flat(results: Any) -> list[Tensor]:
    return [*results] if isinstance(results, tuple | list) else [results]


def as_built(function: Callable[..., Any], values: Tensor) -> np.ndarray:
    """Transform, fuse and schedule a network of one function as for a package, and run it."""
    imported = read(torch.export.export(Of(function), (values,)), ImportOptions(source="net", trusted=True))
    module, _ = transform(imported.module, imported.params, TransformRequest(precision=PrecisionConfig(base="float32")))
    config = TargetConfig(kind="llvm")
    request = BuildRequest(model="net", precision="float32", target_name="t", target=config)
    _, executable = lower_and_generate(module, tvm_target(config, "targets.t"), request, 1)
    result: Any = tvm.relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(values.numpy()))
    return result.numpy()


def assert_equals_pytorch(function: Callable[..., Any], matrix: Tensor) -> None:
    """Compare an imported function of a matrix with PyTorch."""
    expected = function(matrix)
    imported = read(torch.export.export(Of(function), (matrix,)), ImportOptions(source="net"))
    references = expected if isinstance(expected, tuple) else [expected]
    for output, reference in zip(outputs(imported, matrix.numpy()), references, strict=True):
        np.testing.assert_allclose(output, reference.numpy(), rtol=1e-3, atol=1e-4)
