"""Hand the operators that CLML has to it, and report which those are."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvmake.quick_tvm import tvm

if TYPE_CHECKING:
    from tvmake.target.adreno.clml import Offload

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Offloaded:
    """A network after CLML had its pick."""

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
    """Whether the target wants CLML."""
    return "clml" in target.keys


def clml_offload(module: "tvm.IRModule", params: Mapping[str, Any]) -> Offloaded:
    """Partition a network for CLML, and compile the parts where this TVM can."""
    from tvmake.target.adreno.clml import compiled, offload, partition

    parts = partition(module, params)
    report = offload(parts)
    if report.is_compiled:
        return Offloaded(compiled(parts), report)
    LOG.warning("CLML could take %d operators: %s", sum(report.offloaded.values()), report.reason)
    LOG.warning("the package runs all operators as OpenCL kernels")
    return Offloaded(module, report)
