"""Create the measurer for a device of the config."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import tvm

from tvmake.config.device import LocalDeviceConfig, RpcDeviceConfig
from tvmake.config.device_variables import plain
from tvmake.config.requests.tuning import TuneRequest
from tvmake.device.fingerprint import usable_cores
from tvmake.device.rpc.serving import ending_servers, serve_devices
from tvmake.device.rpc.tracker import Tracker
from tvmake.device.time_slots import SessionSlots, TimeSlots
from tvmake.targets.backends import device_kind
from tvmake.targets.resolve import linker
from tvmake.tune.measure.interface import Measurer
from tvmake.tune.measure.local import LocalMeasurer
from tvmake.tune.measure.remote import RPCMeasurer


@contextmanager
def measurer(
    request: TuneRequest, target: "tvm.target.Target", on_set_aside: Callable[[str], None] = lambda _: None
) -> Iterator[Measurer]:
    """Yield the measurer for the device of a request.

    Args:
        on_set_aside: called with one line for each device that is set aside.

    Raises:
        MachineError: the linker is missing.
        DeviceError: no tracker is known.
    """
    driver = linker(request.target, f"targets.{request.target_name}")
    builders = request.measure.builders or usable_cores()
    device = request.device
    measurer_: LocalMeasurer | RPCMeasurer
    match device:
        case LocalDeviceConfig():
            measurer_ = LocalMeasurer(
                target,
                request.measure,
                builders,
                request.device_name,
                device.threads,
                plain(device.env, f"device '{request.device_name}'"),
                driver,
                device.conditioning,
            )
        case _:
            slots: TimeSlots = SessionSlots(device.conditioning)
            if not isinstance(device, RpcDeviceConfig):
                slots = servers = serve_devices(request.device_name, device, device_kind(target), on_set_aside)
                device = servers.config
            measurer_ = RPCMeasurer(
                target,
                request.measure,
                builders,
                Tracker.of(request.device_name, device),
                session_timeout_s=device.session_timeout_s,
                servers=device.servers,
                wait_s=device.wait_s,
                threads=device.threads,
                driver=driver,
                time_slots=slots,
                on_set_aside=on_set_aside,
            )
    with ending_servers(), closing(measurer_) as measuring:
        yield measuring
