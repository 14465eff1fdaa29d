"""Device addresses for commands without a config: ``ssh:pi@board.local``, ``adb:R58M``, ``rpc:farm:9190/android``."""

import re
from typing import Any

ADDRESSES = "ssh:[USER@]HOST[:PORT], adb[:SERIAL] or rpc:TRACKER:PORT/KEY"
"""The forms, for messages."""

_FORM = re.compile(r"(?P<via>ssh|adb|rpc)(?::(?://)?(?P<rest>.*))?")


def parse_device(text: str) -> dict[str, Any] | None:
    """Parse an address into the keys of a device's config; None if the text is not an address.

    The config's own checks validate host, serial number and tracker.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        return None
    via, rest = match["via"], (match["rest"] or "").rstrip("/")
    if via == "adb":
        return {"via": via, **({"serial": rest} if rest else {})}
    if via == "ssh":
        user, _, host = rest.rpartition("@")
        return {"via": via, **({"host": host} if host else {}), **({"user": user} if user else {})}
    tracker, _, key = rest.rpartition("/")
    return {"via": via, **({"tracker": tracker} if tracker else {}), **({"key": key} if key else {})}
