"""Give CLML the operators that it has, and report them."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tvm

if TYPE_CHECKING:
    from tvmake.targets.adreno.clml import Offload

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Offloaded:
    """A network without the operators that CLML computes."""

    module: "tvm.IRModule"
    """The network to lower: with compiled CLML subgraphs, or as it was where this TVM cannot compile them."""
    report: "Offload"

    def files(self) -> dict[str, str]:
        """``clml/offload.json`` and one file a subgraph."""
        layers = self.report.model_copy(update={"subgraphs": []})
        texts = {"clml/offload.json": layers.model_dump_json(indent=2, exclude={"subgraphs"}) + "\n"}
        for subgraph in self.report.subgraphs:
            texts[f"clml/{subgraph.name}.json"] = subgraph.model_dump_json(indent=2) + "\n"
        return texts


def asks_for_clml(target: "tvm.target.Target") -> bool:
    """Whether operators are to be given to CLML on a target."""
    return "clml" in target.keys


def clml_offload(module: "tvm.IRModule", params: Mapping[str, Any]) -> Offloaded:
    """Partition a network for CLML, and compile the parts where this TVM can."""
    from tvmake.targets.adreno.clml import compiled, offload, partition

    parts = partition(module, params)
    report = offload(parts)
    if report.is_compiled:
        return Offloaded(compiled(parts), report)
    LOG.warning("CLML could take %d operators: %s", sum(report.offloaded.values()), report.reason)
    LOG.warning("the package runs all operators as OpenCL kernels")
    return Offloaded(module, report)
