"""What a server reports of its device over RPC, and the one thing that can be set there."""

from contextlib import suppress
from typing import Any

import tvm

from tvmake.artifact.fingerprint import Fingerprint
from tvmake.config.device import RpcDeviceConfig
from tvmake.device.limits import REPORT, read_report
from tvmake.errors import DeviceError

BIG = 1
"""TVM's affinity mode that a thread pool starts with: the big cores (tvm/runtime/threading_backend.h)."""

ACCELERATORS = ("cuda", "opencl", "vulkan", "metal", "rocm", "hexagon")
"""Kinds of devices to ask for, as TVM's runtime calls them."""

GOVERNOR = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
OS_RELEASE = "/etc/os-release"
"""Files that any user may read; the protocol fetches files."""


class TooFewThreads(DeviceError):
    """A server that does not run kernels on as many threads as the config asks for."""


def limit_threads(session: Any, threads: int | None, where: str = "rpc") -> int:
    """Have CPU kernels of this session use ``threads`` threads, or as many as the server has.

    Returns:
        How many they use.

    Raises:
        TooFewThreads: the server cannot.
    """
    remedy = "start the server with TVM_NUM_THREADS set to the number, or ask for fewer threads in the config"
    try:
        number = session.get_function("runtime.NumThreads")
        if threads is None:
            return int(number())
        session.get_function("runtime.config_threadpool")(BIG, threads)
    except AttributeError:
        if threads is None:
            return 1  # a runtime without a thread pool
        raise TooFewThreads(where, "its server's runtime has no threads to set", remedy) from None
    if int(number()) != threads:
        raise TooFewThreads(where, f"its server runs kernels on {number()} threads at most, not on {threads}", remedy)
    return threads


def remote_fingerprint(session: Any, config: RpcDeviceConfig, where: str, version: str | None = None) -> Fingerprint:
    """Who the device behind a session is.

    Equal devices have to give equal fingerprints, so addresses are left out. A server does not report its CPU's model.

    Args:
        version: of TVM there; None where that is not known.

    Raises:
        DeviceError: it cannot use as many threads as the config asks for.
    """
    cores = limit_threads(session, None)
    threads = limit_threads(session, config.threads, where)
    details = {"threads": str(threads), "key": config.key}
    for kind in ACCELERATORS:
        device = session.device(kind, 0)
        if device.exist:
            properties = (device.device_name, device.compute_version, device.driver_version)
            details[kind] = ", ".join(str(fact) for fact in properties if fact) or "yes"
            details |= _limits(session) if kind == "opencl" else {}
    if governor := _file(session, GOVERNOR):
        details["governor"] = governor
    return Fingerprint(
        kind="cpu",
        soc=config.soc or config.key,
        cores=cores,
        memory_bytes=int(session.device("cpu", 0).total_global_memory or 0),
        os=_os(session),
        runtime=f"apache-tvm {version}" if version else "TVM RPC server",
        details=details,
    )


def _limits(session: Any) -> dict[str, str]:
    with suppress(AttributeError):  # a runtime without tvmake's OpenCL
        return read_report(str(session.get_function(REPORT)(0)))
    return {}


def _os(session: Any) -> str:
    for line in _file(session, OS_RELEASE).splitlines():
        name, _, value = line.partition("=")
        if name == "PRETTY_NAME":
            return value.strip('"')
    return "not told"


def _file(session: Any, path: str) -> str:
    """A file's text; empty when it is not there."""
    with suppress(tvm.error.RPCError):  # the server's own error; a lost connection raises another
        return bytes(session.download(path)).rstrip(b"\0").decode(errors="replace").strip()
    return ""
