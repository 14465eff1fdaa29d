"""Offload operators to CLML, and report them."""

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import tvm

from tvmake.artifact.manifest import ClmlPart

if TYPE_CHECKING:
    from tvmake.targets.adreno_clml.report import Offload

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Offloaded:
    """The part of a network that CLML computes."""

    report: "Offload"
    parts: list[ClmlPart]

    def files(self) -> dict[str, str]:
        """``clml/offload.json`` and one file per subgraph."""
        layers = self.report.model_copy(update={"subgraphs": []})
        texts = {"clml/offload.json": layers.model_dump_json(indent=2, exclude={"subgraphs"}) + "\n"}
        for subgraph in self.report.subgraphs:
            texts[f"clml/{subgraph.name}.json"] = subgraph.model_dump_json(indent=2) + "\n"
        return texts


def clml_offload(module: "tvm.IRModule", inputs: int) -> Offloaded:
    """Offload a transformed network's operators to CLML.

    Args:
        inputs: number of network inputs among ``main``'s arguments.
    """
    from tvmake.targets.adreno_clml.partition import partition
    from tvmake.targets.adreno_clml.report import offload, parts_of

    cut = partition(module, inputs)
    report = offload(cut)
    if report.is_compiled:
        LOG.info("CLML takes %d operators in %d parts", sum(report.offloaded.values()), len(cut.chosen))
    else:
        LOG.warning("the package runs all operators as OpenCL kernels: %s", report.reason)
    return Offloaded(report, parts_of(cut))
