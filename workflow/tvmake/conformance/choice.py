"""The default targets of a device's self-test."""

from tvmake.artifact.fingerprint import Fingerprint
from tvmake.config.target import TargetConfig
from tvmake.device.interface import Device
from tvmake.device.limits import IMAGES
from tvmake.errors import TvmakeError, UsageError

TEXTURES, BUFFERS = "adreno-texture", "adreno-buffer"
"""Their schedules and work-arounds are for Adreno; any OpenCL driver with images runs the code."""


def default_targets(device: Device, is_here: bool) -> dict[str, TargetConfig]:
    """The CPU, and the GPU with buffers and with textures if its OpenCL driver has images.

    Args:
        is_here: the device is this machine.

    Raises:
        DeviceError: it cannot be reached.
        UsageError: the device's processor is unknown.
    """
    host = "" if is_here else _triple(device.fingerprint("cpu"))
    if host is None:
        raise UsageError(
            f"device '{device.name}'",
            "its processor is unknown, as for all devices behind RPC servers",
            "name the target: --target 'llvm -mtriple=aarch64-linux-gnu'",
        )
    values: dict[str, dict[str, object]] = {"cpu": {"kind": "llvm", "mtriple": host} if host else {"kind": "llvm"}}
    try:
        gpu = device.fingerprint("opencl")
    except TvmakeError:
        gpu = None
    if gpu is not None:
        on_host = {"host": host} if host else {}
        values["opencl-buffer"] = {"tag": BUFFERS, **on_host}
        if gpu.details.get(IMAGES, "none") != "none":
            values["opencl-texture"] = {"tag": TEXTURES, **on_host}
    return {name: TargetConfig.model_validate(value) for name, value in values.items()}


def _triple(fingerprint: Fingerprint) -> str | None:
    """The system of a device's CPU; None if unknown."""
    machine = fingerprint.details.get("machine", "")
    if not machine:
        return None
    return f"{machine}-linux-{'android' if 'android' in fingerprint.os.lower() else 'gnu'}"
