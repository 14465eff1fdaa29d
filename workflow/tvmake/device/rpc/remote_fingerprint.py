"""A server's report on its device over RPC, and the number of threads, its only setting."""

from contextlib import suppress
from typing import Any

import tvm

from tvmake.artifact.fingerprint import Fingerprint
from tvmake.config.device import RpcDeviceConfig
from tvmake.device.limits import REPORT, read_report
from tvmake.errors import DeviceError

BIG = 1
"""The default affinity mode of TVM's thread pool: the big cores (tvm/runtime/threading_backend.h)."""

ACCELERATORS = ("cuda", "opencl", "vulkan", "metal", "rocm", "hexagon")
"""Kinds of devices to query, as TVM's runtime names them."""

GOVERNOR = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
OS_RELEASE = "/etc/os-release"
"""Files that any user may read; the protocol can fetch files."""


class TooFewThreads(DeviceError):
    """A server that cannot run kernels on the config's number of threads."""


def limit_threads(session: Any, threads: int | None, where: str = "rpc") -> int:
    """Set the number of threads for CPU kernels of this session; None: the server's default.

    Returns:
        The number in use.

    Raises:
        TooFewThreads: the server cannot use that many.
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
        raise TooFewThreads(where, "its server's runtime has no thread setting", remedy) from None
    if int(number()) != threads:
        raise TooFewThreads(where, f"its server runs kernels on {number()} threads at most, not on {threads}", remedy)
    return threads


def remote_fingerprint(session: Any, config: RpcDeviceConfig, where: str, version: str | None = None) -> Fingerprint:
    """The identity of the device behind a session.

    Equal devices must have equal fingerprints, so addresses are left out. A server does not report its CPU's model.

    Args:
        version: the server's TVM; None if unknown.

    Raises:
        DeviceError: it cannot use the config's number of threads.
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
    """A file's text; empty if it does not exist."""
    with suppress(tvm.error.RPCError):  # an error on the server; a lost connection raises another
        return bytes(session.download(path)).rstrip(b"\0").decode(errors="replace").strip()
    return ""
