"""Which version of TVM a server runs: code for another one may load and compute nonsense.

A native server reports what it is made for. TVM's own has no function for that, but its printer of scripts writes TVM's
version wherever it stores an object it has no syntax for, so such an object is made there and printed.
"""

import re
from contextlib import suppress
from importlib import metadata
from typing import Any

import tvm

from tvmake.device.store import TVM
from tvmake.errors import DeviceError

IN_SCRIPT = re.compile(r'"tvm_version[\\"]*:\s*[\\"]*([^\\"]+)')

PACKAGING = re.compile(r"(\.post\d+)?(\+.*)?$")
"""A source tree does not know these parts of the version that its wheel has, and they change no code."""


def check_version(session: Any, where: str, made_with: str | None = None) -> str | None:
    """Refuse a server of another version of TVM than code is made with.

    Args:
        made_with: that version; this installation's when None.

    Returns:
        The server's, None where it does not report it: TVM's own server on a machine that has only TVM's runtime.

    Raises:
        DeviceError: it is another one.
    """
    wanted = made_with or metadata.version(TVM)
    version = server_version(session)
    if version is not None and _plain(version) != _plain(wanted):
        raise DeviceError(
            where,
            f"its server runs TVM {version}, and code for it is made with TVM {wanted}",
            f"install {TVM}=={wanted} there, or a native server made here (docs/guides/native.md), and start the server again",
        )
    return version


def server_version(session: Any) -> str | None:
    """The version of TVM that a server runs; None where it does not report it."""
    with suppress(AttributeError):  # not a native server, or one of long ago
        return str(session.get_function("tvmake.rpc.version")())
    with suppress(AttributeError, tvm.error.RPCError):  # only a runtime, or a version with other functions
        return _printed(session)
    return None


def _printed(session: Any) -> str | None:
    remote = session.get_function
    odd = remote("ir.SourceName")("tvmake")
    statement = remote("tirx.AttrStmt")(odd, "version", 0, remote("tirx.Evaluate")(0, None), None)
    how = remote("node.PrinterConfig")(remote("ffi.Map")("show_meta", True))
    found = IN_SCRIPT.search(str(remote("node.TVMScriptPrinterScript")(statement, how)))
    return found[1] if found else None


def _plain(version: str) -> str:
    return PACKAGING.sub("", version)
