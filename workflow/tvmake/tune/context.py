"""The context of a target's records, and the number of cores for schedules."""

import tvm

from tvmake.artifact.fingerprint import Fingerprint
from tvmake.config.device import DeviceConfig
from tvmake.records.record import TuningContext
from tvmake.records.workload import GENERATION, target_identity
from tvmake.targets.backends import device_kind


def tuning_context(target: "tvm.target.Target", fingerprint: Fingerprint) -> TuningContext:
    """Return the record context of a target on a device; identical devices share it."""
    return TuningContext(
        generation=GENERATION,
        target=target_identity(target),
        device_class=device_class(fingerprint, device_kind(target)),
    )


def device_class(fingerprint: Fingerprint, kind: str) -> str:
    """Return the properties of a device that determine which candidate is fastest.

    This is the GPU if kernels run on one; records also name the driver.

    Args:
        kind: kind of the device that runs kernels.
    """
    details = fingerprint.details
    if kind == "cpu":
        return f"{fingerprint.soc}, {details.get('threads', str(fingerprint.cores))} threads"
    return details.get("gpu") or details.get(kind, "").partition(",")[0] or fingerprint.soc


def cores(device: DeviceConfig, fingerprint: Fingerprint) -> int:
    """Return the number of cores for schedules of CPU kernels."""
    return device.threads or fingerprint.cores
