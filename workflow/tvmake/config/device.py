"""``devices:`` — how to reach the machines that packages run on."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, model_validator

from tvmake.config.base import Positive, Strict

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
SomeSeconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=200)]

ADDRESS = re.compile(r"(?P<host>[^\s:/\[\]]+|\[[0-9A-Fa-f:.]+\]):(?P<port>\d{1,5})")


def _address(text: str) -> str:
    split_address(text)
    return text


def _matching(pattern: str, expected: str) -> AfterValidator:
    """Text that matches as a whole."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"expected {expected} (got '{text}')")
        return text

    return AfterValidator(check)


def _listed(value: Any) -> Any:
    """One may be written without a list; serial numbers may look like numbers."""
    if value is None:
        return None
    return [
        str(one) if isinstance(one, int) else one for one in (value if isinstance(value, list | tuple) else [value])
    ]


Key = Annotated[str, _matching(r"[^\s:]{1,80}", "a name without spaces and colons")]
Host = Annotated[
    str,
    _matching(
        r"[^\s:/@\[\]-][^\s:/@\[\]]*(:\d{1,5})?|\[[0-9A-Fa-f:.]+\](:\d{1,5})?",
        "a host or host:port, such as board.local:2222",
    ),
]
Gres = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_]+(:[A-Za-z0-9_.]+)?(:[1-9][0-9]*)?$", max_length=80)]
Serial = Annotated[str, _matching(r"[A-Za-z0-9_.:\[\]%-]{1,80}", "a serial number as `adb devices` prints it")]
Directory = Annotated[str, _matching(r"(?!-)[A-Za-z0-9_./+-]+", "a path of letters, digits and any of _ . / + -")]
SystemFile = Annotated[
    str,
    _matching(r"(?!.*\.\.)/sys/[A-Za-z0-9_./:+-]+", "a file below /sys, such as /sys/class/kgsl/kgsl-3d0/force_clk_on"),
]
Setting = Annotated[str, _matching(r"[A-Za-z0-9_. -]{1,80}", "a number or a word")]
OneOrMore = BeforeValidator(_listed, json_schema_input_type=str | list[str] | None)


def split_address(text: str) -> tuple[str, int]:
    """``host:port``, also ``[::1]:9190``, as host and port.

    Raises:
        ValueError: it is neither.
    """
    found = ADDRESS.fullmatch(text)
    if found is None or not 0 < int(found["port"]) < 65536:
        raise ValueError(f"expected host:port, such as 127.0.0.1:9190 (got '{text}')")
    return found["host"].strip("[]"), int(found["port"])


class Conditioning(Strict):
    """What is done to a device before each measurement; what was set is put back after it."""

    pause_s: SomeSeconds = 0
    """Rest for this long, in seconds."""
    below_c: Annotated[float, Field(gt=0, lt=150)] | None = None
    """Wait until every sensor is below this temperature, in °C. Not over ``rpc``."""
    wait_s: Seconds = 600
    """How long to wait for ``below_c`` before the measurement fails, in seconds."""
    sensors: list[Text] = Field(default_factory=list)
    """Thermal zones to look at: those whose type contains one of these; all whose type speaks of a CPU, GPU or SoC when
    left out."""
    governor: Setting | None = None
    """CPU frequency governor to measure with, such as ``performance``; needs root on the device. Not over ``rpc``."""
    clocks: dict[SystemFile, Setting] = Field(default_factory=dict)
    """Files below /sys and what to write there, in this order, such as a GPU's minimum clock; needs root. Not over
    ``rpc``."""

    @property
    def touches_files(self) -> bool:
        """Whether it reads or writes files on the device."""
        return bool(self.below_c is not None or self.governor or self.clocks)


class DeviceConfig(Strict):
    """One device, or several equal ones. ``local`` is this machine and needs no entry."""

    via: Literal["local", "rpc", "ssh", "adb"] = "local"
    """The transport: ``local`` runs packages on this machine, each in a process of its own; ``rpc`` on TVM RPC servers;
    ``ssh`` and ``adb`` with programs that they bring to the device."""
    threads: Positive | None = None
    """Worker threads for CPU kernels (TVM_NUM_THREADS); all cores when left out. An ``rpc`` server may allow fewer."""
    timeout_s: float = Field(default=600, gt=0)
    """How long one run on the device may take, in seconds."""
    env: dict[str, str] = Field(default_factory=dict)
    """``local``, ``ssh``, ``adb``: environment variables for the process that runs packages."""
    tracker: Annotated[str, AfterValidator(_address)] | None = None
    """``rpc``: the tracker's host:port; when left out, TVM_TRACKER_HOST and TVM_TRACKER_PORT of the machine that runs
    the stage."""
    key: Key | None = None
    """``rpc``: what the servers of this device call themselves (``--key``); equal devices share one."""
    priority: Annotated[int, Field(ge=0)] = 1
    """``rpc``: among those who wait for a device of the key, higher ones come first."""
    session_timeout_s: Seconds = 60
    """``rpc``, ``ssh``, ``adb``: how long a server may be held for tuning before it ends the session by itself, and with
    it a kernel that hangs, in seconds. Runs of packages may take ``timeout_s``."""
    servers: Positive | None = None
    """``rpc``: how many of the key's servers one tuning job uses at once; all when left out."""
    wait_s: SomeSeconds = 30
    """``rpc``, ``ssh``, ``adb``: how long to wait for a server to be there, and for a lost one to come back, in seconds."""
    soc: Annotated[str, StringConstraints(min_length=1, max_length=80)] | None = None
    """``rpc``, ``ssh``, ``adb``: what the device is (``Snapdragon 8 Gen 2``): records are kept by it; when left out, the
    key, or what the device says of itself."""
    host: Annotated[Annotated[list[Host], Field(min_length=1)] | None, OneOrMore] = None
    """``ssh``: the device's name, address or alias in ~/.ssh/config, with ``:port`` if need be; a list for several equal
    devices."""
    user: Text | None = None
    """``ssh``: the user there; that of ~/.ssh/config, or one's own, when left out."""
    identity: Text | None = None
    """``ssh``: file of the private key; the agent's and the usual ones when left out."""
    known_hosts: Text | None = None
    """``ssh``: file of the hosts' public keys; ~/.ssh/known_hosts and /etc/ssh/ssh_known_hosts when left out."""
    serial: Annotated[Annotated[list[Serial], Field(min_length=1)] | None, OneOrMore] = None
    """``adb``: the device's serial number, as in ``adb devices``; a list for several equal ones. When left out,
    ANDROID_SERIAL, or the only device there is."""
    directory: Directory | None = None
    """``ssh``, ``adb``: where packages and programs go on the device; ``.cache/tvmake`` in the home directory over ssh,
    ``/data/local/tmp/tvmake`` over adb, when left out."""
    programs: Text | None = None
    """``ssh``, ``adb``: directory here with ``tvmake-run``, ``tvmake-serve`` and their libraries for the device, for
    processors and systems that tvmake has none for."""
    gres: Gres | None = None
    """On a Slurm cluster: the generic resource that stands for this device, such as ``phone:1``. Jobs that use the device
    ask for it, so that Slurm sends them to a node that has one, and no more of them at once than there are."""
    conditioning: Conditioning | None = None
    """What is done to the device before each measurement: cooling down, governor, clocks."""

    @model_validator(mode="after")
    def _keys_fit(self) -> "DeviceConfig":
        # The resolved config holds every key, so one that says the default says nothing.
        given = [
            name for name, homes in HOMES.items() if self.via not in homes and getattr(self, name) != default_of(name)
        ]
        if given:
            homes = HOMES[given[0]]
            given = [name for name in given if HOMES[name] == homes]
            verb, them = ("belongs", "it") if len(given) == 1 else ("belong", "them")
            raise ValueError(
                f"{', '.join(given)} {verb} to {_alternatives(homes)}, and this device is 'via: {self.via}'; "
                f"write {_alternatives(homes)}, or leave {them} out"
            )
        if self.via == "rpc" and self.key is None:
            raise ValueError(
                "'via: rpc' needs a key; it is what the servers are started with (rpc_server --key), such as key: android"
            )
        if self.via == "ssh" and self.host is None:
            raise ValueError(
                "'via: ssh' needs a host; a name, address or alias of ~/.ssh/config, such as host: pi5.local"
            )
        if self.via == "rpc" and self.conditioning and self.conditioning.touches_files:
            raise ValueError(
                "conditioning.below_c, governor and clocks do not work over 'via: rpc', whose servers write no files; "
                "reach the device by ssh or adb, or leave them out"
            )
        return self


HOMES: dict[str, tuple[str, ...]] = {
    "tracker": ("rpc",),
    "key": ("rpc",),
    "priority": ("rpc",),
    "session_timeout_s": ("rpc", "ssh", "adb"),
    "servers": ("rpc",),
    "wait_s": ("rpc", "ssh", "adb"),
    "soc": ("rpc", "ssh", "adb"),
    "env": ("local", "ssh", "adb"),
    "host": ("ssh",),
    "user": ("ssh",),
    "identity": ("ssh",),
    "known_hosts": ("ssh",),
    "serial": ("adb",),
    "directory": ("ssh", "adb"),
    "programs": ("ssh", "adb"),
}
"""What only some transports understand."""


def _alternatives(names: tuple[str, ...]) -> str:
    quoted = [f"'via: {name}'" for name in names]
    return " or ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)


def default_of(name: str) -> Any:
    """What a key is when it is left out."""
    return DeviceConfig.model_fields[name].get_default(call_default_factory=True)
