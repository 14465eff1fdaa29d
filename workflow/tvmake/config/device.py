"""``devices:`` — how to reach the machines that packages run on."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from tvmake.config.base import Positive, Strict

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]

ADDRESS = re.compile(r"(?P<host>[^\s:/\[\]]+|\[[0-9A-Fa-f:.]+\]):(?P<port>\d{1,5})")


def _address(text: str) -> str:
    split_address(text)
    return text


def _key(text: str) -> str:
    if not re.fullmatch(r"[^\s:]{1,80}", text):
        raise ValueError(f"expected a name without spaces and colons (got '{text}')")
    return text


def split_address(text: str) -> tuple[str, int]:
    """``host:port``, also ``[::1]:9190``, as host and port.

    Raises:
        ValueError: it is neither.
    """
    found = ADDRESS.fullmatch(text)
    if found is None or not 0 < int(found["port"]) < 65536:
        raise ValueError(f"expected host:port, such as 127.0.0.1:9190 (got '{text}')")
    return found["host"].strip("[]"), int(found["port"])


class DeviceConfig(Strict):
    """One device, or several equal ones. ``local`` is this machine and needs no entry."""

    via: Literal["local", "rpc"] = "local"
    """The transport: ``local`` runs packages on this machine, each in a process of its own; ``rpc`` on TVM RPC servers."""
    threads: Positive | None = None
    """Worker threads for CPU kernels (TVM_NUM_THREADS); all cores when left out. An ``rpc`` server may allow fewer."""
    timeout_s: float = Field(default=600, gt=0)
    """How long one run on the device may take, in seconds."""
    env: dict[str, str] = Field(default_factory=dict)
    """``local``: environment variables for the process that runs packages."""
    tracker: Annotated[str, AfterValidator(_address)] | None = None
    """``rpc``: the tracker's host:port; when left out, TVM_TRACKER_HOST and TVM_TRACKER_PORT of the machine that runs
    the stage."""
    key: Annotated[str, AfterValidator(_key)] | None = None
    """``rpc``: what the servers of this device call themselves (``--key``); equal devices share one."""
    priority: Annotated[int, Field(ge=0)] = 1
    """``rpc``: among those who wait for a device of the key, higher ones come first."""
    session_timeout_s: Seconds = 60
    """``rpc``: how long a server may be held for tuning before it ends the session by itself, and with it a kernel that
    hangs, in seconds. Runs of packages may take ``timeout_s``."""
    servers: Positive | None = None
    """``rpc``: how many of the key's servers one tuning job uses at once; all when left out."""
    wait_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 30
    """``rpc``: how long to wait for a server of the key to be there, and for a lost one to come back, in seconds."""
    soc: Annotated[str, StringConstraints(min_length=1, max_length=80)] | None = None
    """``rpc``: what the device is (``Snapdragon 8 Gen 2``): records are kept by it; the key when left out."""

    @model_validator(mode="after")
    def _keys_fit(self) -> "DeviceConfig":
        foreign = RPC_KEYS if self.via == "local" else LOCAL_KEYS
        # The resolved config holds every key, so one that says the default says nothing.
        given = [name for name in foreign if getattr(self, name) != default_of(name)]
        if given:
            other = "rpc" if self.via == "local" else "local"
            verb, them = ("belongs", "it") if len(given) == 1 else ("belong", "them")
            raise ValueError(
                f"{', '.join(given)} {verb} to 'via: {other}', and this device is 'via: {self.via}'; "
                f"write 'via: {other}', or leave {them} out"
            )
        if self.via == "rpc" and self.key is None:
            raise ValueError(
                "'via: rpc' needs a key; it is what the servers are started with (rpc_server --key), such as key: android"
            )
        return self


RPC_KEYS = ("tracker", "key", "priority", "session_timeout_s", "servers", "wait_s", "soc")
LOCAL_KEYS = ("env",)
"""What only one transport understands."""


def default_of(name: str) -> Any:
    """What a key is when it is left out."""
    return DeviceConfig.model_fields[name].get_default(call_default_factory=True)
