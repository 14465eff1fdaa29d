"""The measurer for a device, as the config reaches it."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from tvmake.config.requests.tuning import TuneRequest
from tvmake.device.fingerprint import usable_cores
from tvmake.quick_tvm import tvm
from tvmake.target.resolve import linker
from tvmake.tune.measuring.interface import Measurer
from tvmake.tune.measuring.local import LocalMeasurer


@contextmanager
def measurer(request: TuneRequest, target: "tvm.target.Target") -> Iterator[Measurer]:
    """What builds and times candidates for this request's device, until the block ends.

    Raises:
        MachineError: the linker is missing.
    """
    local = LocalMeasurer(
        target,
        request.measure,
        request.measure.builders or usable_cores(),
        request.device_name,
        request.device.threads,
        request.device.env,
        linker(request.target, f"targets.{request.target_name}"),
    )
    with closing(local) as measuring:
        yield measuring
