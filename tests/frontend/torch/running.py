"""Networks of one function, and what was imported, run on the CPU."""

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
    """The outputs of an imported network, whose parameters follow its inputs."""
    machine = tvm.relax.VirtualMachine(tvm.compile(imported.module, target=UNOPTIMISED), tvm.cpu())
    names = [str(parameter.name) for parameter in imported.module["main"].params[len(inputs) :]]
    arguments = [*map(tvm.runtime.tensor, inputs), *(imported.params[name] for name in names)]
    result: Any = machine["main"](*arguments)
    return [one.numpy() for one in ([result] if hasattr(result, "numpy") else result)]


class _Together(nn.Module):
    """Networks of the same inputs, as one network with the outputs of all."""

    def __init__(self, networks: Iterable[nn.Module]):
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(one for network in self.networks for one in _flat(network(*inputs)))


class Cases:
    """Networks of the same inputs that are imported and compiled together, when the first of them is asked for.

    PyTorch goes through all its operators for each program that it decomposes, which takes longer than all else that a
    network of one operator needs. Where the networks cannot be imported together, halves of them are, down to a single one,
    which its own test then imports and which says why.

    Args:
        networks: by name; functions or modules.
        inputs: of each of them.
    """

    def __init__(self, networks: Mapping[str, Callable[..., Any]], *inputs: Tensor):
        self.inputs = inputs
        self.networks = {
            name: (network if isinstance(network, nn.Module) else Of(network)).eval()
            for name, network in networks.items()
        }

    def expected(self, name: str) -> list[np.ndarray]:
        """What PyTorch computes."""
        return [one.detach().numpy() for one in _flat(self.networks[name](*self.inputs))]

    def outputs(self, name: str) -> list[np.ndarray]:
        """What the imported network computes."""
        if name in self._together:
            return self._together[name]
        return self._imported(self.networks[name])

    @cached_property
    def _together(self) -> dict[str, list[np.ndarray]]:
        return self._outputs_of([*self.networks])

    def _outputs_of(self, names: list[str]) -> dict[str, list[np.ndarray]]:
        try:
            found = iter(self._imported(_Together(self.networks[name] for name in names)))
        except Exception:  # noqa: BLE001  # whatever it is, the test of its network alone reports it
            middle = len(names) // 2
            return self._outputs_of(names[:middle]) | self._outputs_of(names[middle:]) if middle else {}
        return {name: [next(found) for _ in self.expected(name)] for name in names}

    def _imported(self, network: nn.Module) -> list[np.ndarray]:
        imported = read(torch.export.export(network, self.inputs), ImportOptions(source="net"))
        return outputs(imported, *(one.numpy() for one in self.inputs))


def _flat(results: Any) -> list[Tensor]:
    return [*results] if isinstance(results, tuple | list) else [results]


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
