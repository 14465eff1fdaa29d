"""Pack a model's parameters for its tuned kernels once, when the package is built."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import tvm

from tvmake.artifact.tensor_file import numpy_dtype
from tvmake.artifact.weights.tensors import Deferred
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
    types = {
        name: parameter.ty
        for packing in packings
        for name, parameter in zip(packing.results, _results(packing), strict=True)
    }
    packer = _Packer(params, packings)
    return {
        name: Deferred(_shape(types[name]), str(types[name].dtype), partial(packer.tensor, name))
        if name in types
        else params[name]
        for name in names
    }


class _Packer:
    def __init__(self, params: Mapping[str, Any], packings: Sequence[Packing]):
        # Calls of one kernel share its packing.
        functions = {packing.function: f"packing_{number}" for number, packing in enumerate(packings)}
        self._library = tvm.compile(
            tvm.IRModule({name: function.with_attr("global_symbol", name) for function, name in functions.items()}),
            target=tvm.target.Target({"kind": "llvm"}),
        )
        self._runs = {name: (packing, functions[packing.function]) for packing in packings for name in packing.results}
        self._params, self._others = params, dict[str, "tvm.runtime.Tensor"]()

    def tensor(self, name: str) -> "tvm.runtime.Tensor":
        """A packed parameter, or the model's of this name."""
        if name in self._others:
            return self._others.pop(name)
        if name not in self._runs:
            return self._params[name]
        packing, function = self._runs[name]
        tensors = {result: _zeros(ty.ty) for result, ty in zip(packing.results, _results(packing), strict=True)}
        self._library[function](*map(self.tensor, packing.sources), *tensors.values())
        wanted = tensors.pop(name)
        self._others |= tensors  # they are asked for next
        return wanted


def _results(packing: Packing) -> Sequence[Any]:
    return packing.function.params[len(packing.sources) :]


def _zeros(ty: Any) -> "tvm.runtime.Tensor":
    return tvm.runtime.tensor(np.zeros(_shape(ty), numpy_dtype(str(ty.dtype))))


def _shape(ty: Any) -> tuple[int, ...]:
    return tuple(map(int, ty.shape))
