"""The address of adb's server."""

import os

from tvmake.errors import InputError

HOST, PORT = "127.0.0.1", 5037
"""adb's defaults, unless ANDROID_ADB_SERVER_HOST and ANDROID_ADB_SERVER_PORT are set."""


def server_address() -> tuple[str, int]:
    """Host and port.

    Raises:
        InputError: ANDROID_ADB_SERVER_PORT is not a port.
    """
    text = os.environ.get("ANDROID_ADB_SERVER_PORT", str(PORT))
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise InputError("ANDROID_ADB_SERVER_PORT", f"expected a port (got '{text}')", f"adb's own is {PORT}")
    return os.environ.get("ANDROID_ADB_SERVER_HOST", HOST), int(text)
