"""Devices given as one line of text, for commands that need no config: ``ssh:pi@board.local``, ``adb:R58M``, ``rpc:farm:9190/android``."""

import re
from typing import Any

ADDRESSES = "ssh:[USER@]HOST[:PORT], adb[:SERIAL] or rpc:TRACKER:PORT/KEY"
"""The forms, for messages."""

_FORM = re.compile(r"(?P<via>ssh|adb|rpc)(?::(?://)?(?P<rest>.*))?")


def parse_device(text: str) -> dict[str, Any] | None:
    """The keys of a device's config that an address stands for; None for a text that is none.

    Whether host, serial number and tracker can be what they are written as, the config's own checks say.
    """
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    via, rest = found["via"], (found["rest"] or "").rstrip("/")
    if via == "adb":
        return {"via": via, **({"serial": rest} if rest else {})}
    if via == "ssh":
        user, _, host = rest.rpartition("@")
        return {"via": via, **({"host": host} if host else {}), **({"user": user} if user else {})}
    tracker, _, key = rest.rpartition("/")
    return {"via": via, **({"tracker": tracker} if tracker else {}), **({"key": key} if key else {})}
