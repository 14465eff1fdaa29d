"""The pipeline of single kernels, from schedule to code generator: TVM's passes, and a backend's passes around them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tvm

from tvmake.targets.passes import Pass, pass_name

DEFAULT = "default"
"""TVM's name for its own pipeline."""

Phases = tuple[Any, Any, Any]
"""Lowering, and factories of the passes that finish host and device code, as ``tirx.build`` unpacks them."""


@dataclass(frozen=True)
class KernelPipeline:
    """TVM's passes for kernels with others around them."""

    name: str = DEFAULT
    """The pipeline's name for ``tirx.build``."""
    before: Sequence[Pass] = ()
    """Passes on scheduled kernels, before TVM lowers them."""
    after: Sequence[Pass] = ()
    """Passes on lowered kernels, before host and device functions are finished."""
    device: Sequence[Pass] = ()
    """Passes on the device's functions, before TVM finishes them."""
    make: Callable[[], Phases] | None = None
    """Replaces :meth:`phases`."""

    def register(self) -> str:
        """Register the pipeline with TVM; returns its name."""
        if self.before or self.after or self.device:  # it is not TVM's own
            tvm.tirx.compilation_pipeline.register_tir_pipeline(self.name, self.make or self.phases)
        return self.name

    def phases(self) -> Phases:
        """TVM's phases with the additional passes."""
        lowering, host, device = tvm.tirx.compilation_pipeline.get_tir_pipeline(DEFAULT)
        passes = tvm.transform.Sequential([*self.before, lowering, *self.after])
        return passes, host, (lambda: tvm.transform.Sequential([*self.device, device()])) if self.device else device

    def pass_names(self) -> list[str]:
        """The passes in order; TVM's are one line."""
        groups = (self.before, ["(TVM lowers kernels)"], self.after, self.device)
        return [
            kernel_pass if isinstance(kernel_pass, str) else pass_name(kernel_pass)
            for group in groups
            for kernel_pass in group
        ]
