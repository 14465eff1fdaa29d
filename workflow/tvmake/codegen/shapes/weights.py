"""Share the weights of several functions: equal ones have one name, and tiles read weights as other kernels laid them out."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import tvm
import tvm_ffi

from tvmake.artifact.weights.names import unused_name
from tvmake.codegen.lowering import Lowered
from tvmake.ir.rewriting import with_functions
from tvmake.targets.backend import NO_WIDTHS
from tvmake.targets.weights.prepack import Packing, Prepacked, kernel_widths, packed_width

from tvm import relax  # isort: skip


class SharedWeights:
    """The weights of the functions that were added, by content.

    Args:
        inputs: number of network inputs among ``main``'s arguments.
        parameters: names of the network's parameters.
        widths: the numbers of adjacent results for which another package packs parameters.
    """

    def __init__(self, inputs: int, parameters: Iterable[str], widths: Mapping[str, int] = NO_WIDTHS):
        self.inputs = inputs
        self.variables: dict[str, Any] = {}
        """The weights by name, in order."""
        self.packings: list[Packing] = []
        """Convert the network's parameters to the weights; each runs once."""
        self._names: dict[Hashable, str] = {name: name for name in parameters}
        """Names of weights by identity: that of the network's parameter, or a packing and the identities of its sources."""
        self._widths: dict[Hashable, int] = dict[Hashable, int](widths.items())
        """The number of adjacent results for which a weight was packed."""
        self._functions: list[Any] = []
        """Different packing functions; a position identifies one."""

    def widths(self, graph: Prepacked) -> dict[str, int]:
        """The numbers of adjacent results of tiles for which weights have been packed, by kernel of a graph."""
        identities = self._identities(graph.packings)
        return kernel_widths(graph.module, lambda name: self._widths.get(identities.get(name, name)))

    def add(self, lowered: Lowered) -> Lowered:
        """The function with the names of equal weights that were added before."""
        identities: dict[str, Hashable] = {}
        for packing in lowered.packings:
            sources = tuple(identities.get(source, source) for source in packing.sources)
            results = self._result_identities(packing, sources)
            identities |= dict(zip(packing.results, results, strict=True))
            if results[0] not in self._names:
                for name, identity in zip(packing.results, results, strict=True):
                    self._names[identity] = unused_name(name, {*self._names.values()})
                self.packings.append(replace(packing, sources=self._names_of(sources), results=self._names_of(results)))
                if (width := packed_width(packing.function)) is not None:
                    self._widths.setdefault(sources[0], width)
        weights = [str(weight.name) for weight in lowered.fused["main"].params[self.inputs :]]
        names = dict(zip(weights, self._names_of([identities.get(weight, weight) for weight in weights]), strict=True))
        for weight in lowered.fused["main"].params[self.inputs :]:
            name = names[str(weight.name)]
            self.variables.setdefault(name, relax.Var(name, weight.ty))
        return replace(lowered, fused=_rename_weights(lowered.fused, self.inputs, names))

    def _names_of(self, identities: Iterable[Hashable]) -> tuple[str, ...]:
        return tuple(self._names[identity] for identity in identities)

    def _identities(self, packings: Iterable[Packing]) -> dict[str, Hashable]:
        """The identities of packed weights, by the names that they have after the last packing."""
        identities: dict[str, Hashable] = {}
        for packing in packings:
            sources = tuple(identities.get(source, source) for source in packing.sources)
            identities |= dict(zip(packing.results, self._result_identities(packing, sources), strict=True))
        return identities

    def _result_identities(self, packing: Packing, sources: tuple[Hashable, ...]) -> list[Hashable]:
        position = self._position(packing.function)
        return [(position, index, sources) for index in range(len(packing.results))]

    def _position(self, function: "tvm.tirx.PrimFunc") -> int:
        plain = function.without_attr("global_symbol")
        for position, known in enumerate(self._functions):
            if tvm_ffi.structural_equal(known, plain):
                return position
        self._functions.append(plain)
        return len(self._functions) - 1


def _rename_weights(module: "tvm.IRModule", inputs: int, names: Mapping[str, str]) -> "tvm.IRModule":
    main = module["main"]
    renamed = {
        weight: relax.Var(names[str(weight.name)], weight.ty)
        for weight in main.params[inputs:]
        if names[str(weight.name)] != str(weight.name)
    }
    if not renamed:
        return module
    body = tvm_ffi.structural_map(main.body, (relax.Var, lambda variable: renamed.get(variable, variable)))
    parameters = [renamed.get(parameter, parameter) for parameter in main.params]
    changed = relax.Function(parameters, body, main.ret_ty, main.is_pure, main.attrs, main.span)
    return with_functions(module, {"main": changed})
