"""Networks of one function, and runs of imported networks on the CPU."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
import tvm
from torch import Tensor, nn

from tests.unoptimised import unoptimised_machine
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


def compile_imported(imported: ImportedModel) -> Callable[..., list[np.ndarray]]:
    """A function that runs an imported network on inputs."""
    machine = unoptimised_machine(imported.module)

    def run(*inputs: np.ndarray) -> list[np.ndarray]:
        names = [str(parameter.name) for parameter in imported.module["main"].params[len(inputs) :]]
        arguments = [*map(tvm.runtime.tensor, inputs), *(imported.params[name] for name in names)]
        result: Any = machine["main"](*arguments)
        return [output.numpy() for output in ([result] if hasattr(result, "numpy") else result)]

    return run


def outputs(imported: ImportedModel, *inputs: np.ndarray) -> list[np.ndarray]:
    """Run an imported network on inputs."""
    return compile_imported(imported)(*inputs)


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
        dynamic_shapes: of the inputs, if they have dynamic dimensions.
        others: further inputs, with other sizes of these dimensions.
    """

    def __init__(
        self,
        networks: Mapping[str, Callable[..., Any]],
        *inputs: Tensor,
        dynamic_shapes: Sequence[Any] | None = None,
        others: Iterable[tuple[Tensor, ...]] = (),
    ):
        self.samples = [inputs, *others]
        self.dynamic_shapes = dynamic_shapes
        self.networks = {
            name: (network if isinstance(network, nn.Module) else Of(network)).eval()
            for name, network in networks.items()
        }

    def expected(self, name: str, sample: int = 0) -> list[np.ndarray]:
        """PyTorch's outputs for the inputs, or for the others of this number, from 1."""
        return [output.detach().numpy() for output in _flat(self.networks[name](*self.samples[sample]))]

    def outputs(self, name: str, sample: int = 0) -> list[np.ndarray]:
        """The imported network's outputs for the same inputs."""
        if name in self._combined_outputs:
            return self._combined_outputs[name][sample]
        return self._run([name])[sample]

    @cached_property
    def _combined_outputs(self) -> dict[str, list[list[np.ndarray]]]:
        return self._outputs_of([*self.networks])

    def _outputs_of(self, names: list[str]) -> dict[str, list[list[np.ndarray]]]:
        try:
            samples = [iter(results) for results in self._run(names)]
        except Exception:  # noqa: BLE001  # the test of the single network reports the error
            middle = len(names) // 2
            return self._outputs_of(names[:middle]) | self._outputs_of(names[middle:]) if middle else {}
        return {name: [[next(results) for _ in self.expected(name)] for results in samples] for name in names}

    def _run(self, names: Iterable[str]) -> list[list[np.ndarray]]:
        network = _Combined(self.networks[name] for name in names)
        shapes = self.dynamic_shapes and (tuple(self.dynamic_shapes),)
        program = torch.export.export(network, self.samples[0], dynamic_shapes=shapes)
        run = compile_imported(read(program, ImportOptions(source="net")))
        return [run(*(value.numpy() for value in sample)) for sample in self.samples]


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
