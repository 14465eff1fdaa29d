"""The context that a target's records belong to, and for what its candidates are scheduled."""

import tvm

from tvmake.artifact.fingerprint import Fingerprint
from tvmake.config.device import DeviceConfig
from tvmake.records.record import TuningContext
from tvmake.records.workload import GENERATION, target_identity
from tvmake.targets.backends import device_kind


def tuning_context(target: "tvm.target.Target", fingerprint: Fingerprint) -> TuningContext:
    """The context of records of this target measured on this device: that of equal devices, and no others."""
    return TuningContext(
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
