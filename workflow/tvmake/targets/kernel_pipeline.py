"""What single kernels go through, from their schedule to the code generator: TVM's passes, and those of a backend around them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tvm

from tvmake.targets.passes import Pass, pass_name

DEFAULT = "default"
"""TVM's name for its own pipeline."""

Phases = tuple[Any, Any, Any]
"""Lowering, and what makes the passes that finish host and device code, as ``tirx.build`` unpacks them."""


@dataclass(frozen=True)
class KernelPipeline:
    """TVM's passes for kernels with others around them."""

    name: str = DEFAULT
    """By which ``tirx.build`` is asked for it."""
    before: Sequence[Pass] = ()
    """On scheduled kernels, before TVM lowers them."""
    after: Sequence[Pass] = ()
    """On lowered kernels, before functions for host and device are finished."""
    device: Sequence[Pass] = ()
    """On the device's functions, before TVM finishes them."""
    make: Callable[[], Phases] | None = None
    """What puts it together, if not :meth:`phases`."""

    def register(self) -> str:
        """Make it known to TVM; its name."""
        if self.before or self.after or self.device:  # it is not TVM's own
            tvm.tirx.compilation_pipeline.register_tir_pipeline(self.name, self.make or self.phases)
        return self.name

    def phases(self) -> Phases:
        """TVM's own phases with the further passes."""
        lowering, host, device = tvm.tirx.compilation_pipeline.get_tir_pipeline(DEFAULT)
        passes = tvm.transform.Sequential([*self.before, lowering, *self.after])
        return passes, host, (lambda: tvm.transform.Sequential([*self.device, device()])) if self.device else device

    def pass_names(self) -> list[str]:
        """The passes in order; TVM's are one line."""
        groups = (self.before, ["(TVM lowers kernels)"], self.after, self.device)
        return [each if isinstance(each, str) else pass_name(each) for group in groups for each in group]
