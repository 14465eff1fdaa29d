"""Pack a model's parameters for its tuned kernels once, when the package is built."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import tvm

from tvmake.artifact.module_files import format_module, parse_module
from tvmake.artifact.tensor_file import numpy_dtype
from tvmake.artifact.weights.packings import PackingRun, WeightPackings
from tvmake.artifact.weights.tensors import Deferred, release_tensor
from tvmake.targets.weights.prepack import Packing


def packed_weights(
    params: Mapping[str, Any], packings: Sequence[Packing], names: Sequence[str]
) -> dict[str, "tvm.runtime.Tensor"]:
    """The parameters of ``main``.

    Packing only copies, and fills unused space with zeros, so equal parameters give equal bytes on every machine and
    target.
    """
    return {
        name: value.compute() if isinstance(value, Deferred) else value
        for name, value in deferred_weights(params, packings, names).items()
    }


def deferred_weights(params: Mapping[str, Any], packings: Sequence[Packing], names: Sequence[str]) -> dict[str, Any]:
    """The parameters of ``main``, of which each is packed when it is written, so that memory does not hold all of them."""
    packer = _Packer(params, packings)
    return {name: packer.defer(name) for name in names}


def describe_packings(packings: Sequence[Packing], names: Sequence[str]) -> WeightPackings:
    """Packings, and the parameters of ``main`` that they give, as a stage file."""
    functions = _function_names(packings)
    runs = tuple(
        PackingRun(function=functions[packing.function], sources=packing.sources, results=packing.results)
        for packing in packings
    )
    return WeightPackings(names=tuple(names), runs=runs, functions=format_module(_packing_module(functions)))


def described_weights(params: Mapping[str, Any], described: WeightPackings, where: str) -> dict[str, Any]:
    """The parameters of ``main``, as :func:`deferred_weights`, by a stage file.

    Args:
        where: the file, for messages.

    Raises:
        InputError: its functions are damaged.
    """
    module = parse_module(described.functions, where)
    functions = {str(variable.name_hint): function for variable, function in module.functions_items()}
    packings = [Packing(functions[run.function], run.sources, run.results) for run in described.runs]
    return deferred_weights(params, packings, described.names)


def _function_names(packings: Sequence[Packing]) -> "dict[tvm.tirx.PrimFunc, str]":
    """Names of the packing functions; calls of one kernel share its packing."""
    return {packing.function: f"packing_{number}" for number, packing in enumerate(packings)}


def _packing_module(names: "Mapping[tvm.tirx.PrimFunc, str]") -> "tvm.IRModule":
    return tvm.IRModule({name: function.with_attr("global_symbol", name) for function, name in names.items()})


class _Packer:
    def __init__(self, params: Mapping[str, Any], packings: Sequence[Packing]):
        functions = _function_names(packings)
        self._library = tvm.compile(_packing_module(functions), target=tvm.target.Target({"kind": "llvm"}))
        self._params, self._packings = params, packings
        self._functions = [functions[packing.function] for packing in packings]
        self._others: dict[tuple[int, str], tvm.runtime.Tensor] = {}

    def defer(self, name: str) -> Any:
        """A parameter of ``main``: what the last packing with this result gives, or the model's."""
        number = self._last_before(len(self._packings), name)
        if number is None:
            return self._params[name]
        packing = self._packings[number]
        ty = _results(packing)[packing.results.index(name)].ty
        return Deferred(_shape(ty), str(ty.dtype), partial(self._tensor, len(self._packings), name))

    def _tensor(self, end: int, name: str) -> "tvm.runtime.Tensor":
        """The tensor of a name after the first packings: a result may have its source's name."""
        number = self._last_before(end, name)
        if number is None:
            return self._params[name]
        if (number, name) in self._others:
            return self._others.pop((number, name))
        packing = self._packings[number]
        tensors = {result: _zeros(ty.ty) for result, ty in zip(packing.results, _results(packing), strict=True)}
        sources = [self._tensor(number, source) for source in packing.sources]
        self._library[self._functions[number]](*sources, *tensors.values())
        for source in sources:
            release_tensor(source)
        wanted = tensors.pop(name)
        self._others |= {(number, other): tensor for other, tensor in tensors.items()}  # they are asked for next
        return wanted

    def _last_before(self, end: int, name: str) -> int | None:
        return next((number for number in reversed(range(end)) if name in self._packings[number].results), None)


def _results(packing: Packing) -> Sequence[Any]:
    return packing.function.params[len(packing.sources) :]


def _zeros(ty: Any) -> "tvm.runtime.Tensor":
    return tvm.runtime.tensor(np.zeros(_shape(ty), numpy_dtype(str(ty.dtype))))


def _shape(ty: Any) -> tuple[int, ...]:
    return tuple(map(int, ty.shape))
