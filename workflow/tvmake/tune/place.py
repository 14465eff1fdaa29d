"""Where a target's records belong, and how its candidates are measured."""

from tvmake.config.device import DeviceConfig
from tvmake.device.interface import Fingerprint
from tvmake.quick_tvm import tvm
from tvmake.records.record import Place
from tvmake.tune.measuring.kernel import device_kind
from tvmake.tune.workload import GENERATION, target_identity


def place(target: "tvm.target.Target", fingerprint: Fingerprint) -> Place:
    """Where records of this target measured on this device are kept: beside those of equal devices only."""
    return Place(
        generation=GENERATION,
        target=target_identity(target),
        device_class=device_class(fingerprint, device_kind(target)),
    )


def device_class(fingerprint: Fingerprint, kind: str) -> str:
    """What equal devices share, as far as it decides which candidate is fast.

    That is the GPU where kernels run on one; each record says with which driver it was measured.

    Args:
        kind: of the device that kernels run on.
    """
    details = fingerprint.details
    if kind == "cpu":
        return f"{fingerprint.soc}, {details.get('threads', str(fingerprint.cores))} threads"
    return details.get("gpu") or details.get(kind, "").partition(",")[0] or fingerprint.soc


def cores(device: DeviceConfig, fingerprint: Fingerprint) -> int:
    """Cores that CPU kernels are scheduled for."""
    return device.threads or fingerprint.cores
