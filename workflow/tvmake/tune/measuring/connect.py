"""The measurer for a device, as the config reaches it."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from tvmake.config.requests.tuning import TuneRequest
from tvmake.device.fingerprint import usable_cores
from tvmake.device.serving import ending_servers, served
from tvmake.device.tracker import Tracker
from tvmake.device.turns import Sessions, Turns
from tvmake.quick_tvm import tvm
from tvmake.target.resolve import linker
from tvmake.tune.measuring.interface import Measurer
from tvmake.tune.measuring.kernel import device_kind
from tvmake.tune.measuring.local import LocalMeasurer
from tvmake.tune.measuring.remote import RPCMeasurer


@contextmanager
def measurer(
    request: TuneRequest, target: "tvm.target.Target", aside: Callable[[str], None] = lambda _: None
) -> Iterator[Measurer]:
    """What builds and times candidates for this request's device, until the block ends.

    Args:
        aside: told in one line of a device that is set aside.

    Raises:
        MachineError: the linker is missing.
        DeviceError: no tracker is known.
    """
    driver = linker(request.target, f"targets.{request.target_name}")
    builders = request.measure.builders or usable_cores()
    device = request.device
    made: LocalMeasurer | RPCMeasurer
    match device.via:
        case "local":
            made = LocalMeasurer(
                target,
                request.measure,
                builders,
                request.device_name,
                device.threads,
                device.env,
                driver,
                device.conditioning,
            )
        case "rpc" | "ssh" | "adb":
            turns: Turns = Sessions(device.conditioning)
            if device.via != "rpc":
                turns = servers = served(request.device_name, device, device_kind(target), aside)
                device = servers.config
            made = RPCMeasurer(
                target,
                request.measure,
                builders,
                Tracker.of(request.device_name, device),
                session_timeout_s=device.session_timeout_s,
                servers=device.servers,
                wait_s=device.wait_s,
                threads=device.threads,
                driver=driver,
                turns=turns,
                aside=aside,
            )
    with ending_servers(), closing(made) as measuring:
        yield measuring
