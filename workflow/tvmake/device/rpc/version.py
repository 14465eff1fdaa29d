"""The version of TVM that a server runs: code for another version may load and compute wrong values.

A native server reports its version. TVM's own server has no function for that. But TVM's script printer writes the version
wherever it stores an object without syntax, so such an object is created there and printed.
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
"""Parts of a wheel's version that its source tree does not know and that change no code."""


def check_version(session: Any, where: str, built_with: str | None = None) -> str | None:
    """Refuse a server of another version of TVM than that of the code.

    Args:
        built_with: the code's version; default: this installation's.

    Returns:
        The server's version; None if unknown: TVM's own server on a machine with only TVM's runtime.

    Raises:
        DeviceError: the versions differ.
    """
    expected = built_with or metadata.version(TVM)
    version = server_version(session)
    if version is not None and _plain(version) != _plain(expected):
        remedy = f"install {TVM}=={expected} there, or a native server built here (docs/guides/native.md), and start the server again"
        raise DeviceError(where, f"its server runs TVM {version}, and its code was built with TVM {expected}", remedy)
    return version


def server_version(session: Any) -> str | None:
    """The version of TVM that a server runs; None if unknown."""
    with suppress(AttributeError):  # not a native server, or an old one
        return str(session.get_function("tvmake.rpc.version")())
    with suppress(AttributeError, tvm.error.RPCError):  # only a runtime, or a version with other functions
        return _print_version(session)
    return None


def _print_version(session: Any) -> str | None:
    remote = session.get_function
    odd = remote("ir.SourceName")("tvmake")
    statement = remote("tirx.AttrStmt")(odd, "version", 0, remote("tirx.Evaluate")(0, None), None)
    how = remote("node.PrinterConfig")(remote("ffi.Map")("show_meta", True))
    match = IN_SCRIPT.search(str(remote("node.TVMScriptPrinterScript")(statement, how)))
    return match[1] if match else None


def _plain(version: str) -> str:
    return PACKAGING.sub("", version)
