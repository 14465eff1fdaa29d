"""Where adb's server listens."""

import os

from tvmake.errors import InputError

HOST, PORT = "127.0.0.1", 5037
"""adb's own, unless ANDROID_ADB_SERVER_HOST and ANDROID_ADB_SERVER_PORT say otherwise."""


def server_address() -> tuple[str, int]:
    """Host and port.

    Raises:
        InputError: ANDROID_ADB_SERVER_PORT is no port.
    """
    text = os.environ.get("ANDROID_ADB_SERVER_PORT", str(PORT))
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise InputError("ANDROID_ADB_SERVER_PORT", f"expected a port (got '{text}')", f"adb's own is {PORT}")
    return os.environ.get("ANDROID_ADB_SERVER_HOST", HOST), int(text)
