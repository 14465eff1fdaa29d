"""``devices:`` — how to reach the machines that packages run on."""

import re
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)

from tvmake.config.device_variables import Variables, announced, variables_of
from tvmake.options import Positive, Strict

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
    """A list, also of a single value."""
    return value if value is None or isinstance(value, list | tuple) else [value]


def _serial(value: Any) -> Any:
    """Serial numbers may look like numbers."""
    return str(value) if isinstance(value, int) else value


def _host(text: str) -> str:
    user, at, host = text.removeprefix("ssh://").rstrip("/").partition("@")
    if text.startswith("ssh://") and not at:
        raise ValueError(f"a host is named without its protocol (got '{text}'); write host: {user}")
    if at and user and host:
        raise ValueError(f"a host is named without its user (got '{text}'); write user: {user}, host: {host}")
    port = re.search(r"(?<=:)\d+$", text)
    if port and not text.startswith("[") and not 0 < int(port[0]) < 65536:
        raise ValueError(f"expected a port from 1 to 65535 (got '{text}')")
    _check_name(text)
    return text


def _check_name(host: str) -> None:
    try:
        host.encode("idna")  # as the system's resolver is asked
    except UnicodeError:
        raise ValueError(
            f"no host has such a name: its parts between dots have 1 to 63 letters (got '{host}')"
        ) from None


Key = Annotated[str, _matching(r"[^\s:]{1,80}", "a name without spaces and colons")]
Host = Annotated[
    str,
    AfterValidator(_host),
    _matching(
        r"[^\s:/@\[\]-][^\s:/@\[\]]*(:\d{1,5})?|\[[0-9A-Fa-f:.]+\](:\d{1,5})?",
        "a host or host:port, such as board.local:2222",
    ),
]
Gres = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_]+(:[A-Za-z0-9_.]+)?(:[1-9][0-9]*)?$", max_length=80)]
Serial = Annotated[
    str,
    BeforeValidator(_serial, json_schema_input_type=str),
    _matching(r"[A-Za-z0-9_.:\[\]%-]{1,80}", "a serial number as `adb devices` prints it"),
]


def _no_home(text: str) -> str:
    if text.startswith("~"):
        raise ValueError(
            f"only ssh has a home directory, and of its own user: ~/x (got '{text}'); write the whole path"
        )
    return text


Directory = Annotated[
    str,
    AfterValidator(_no_home),
    _matching(r"(?!-)[A-Za-z0-9_./+-]+", "a path of letters, digits and any of _ . / + -"),
]
SystemFile = Annotated[
    str,
    _matching(r"(?!.*\.\.)/sys/[A-Za-z0-9_./:+-]+", "a file below /sys, such as /sys/class/kgsl/kgsl-3d0/force_clk_on"),
]
Setting = Annotated[str, _matching(r"[A-Za-z0-9_. -]{1,80}", "a number or a word")]


def _differing(names: list[str] | None) -> list[str] | None:
    """Equal devices, each named once: twice, one of them would be measured on by two jobs at a time."""
    if twice := sorted({name for name in names or () if (names or []).count(name) > 1}):
        raise ValueError(f"names {', '.join(twice)} twice; name each device once")
    return names


OneOrMore = BeforeValidator(_listed, json_schema_input_type=str | list[str] | None)


def split_address(text: str) -> tuple[str, int]:
    """``host:port``, also ``[::1]:9190``, as host and port.

    Raises:
        ValueError: it is neither.
    """
    found = ADDRESS.fullmatch(text)
    if found is None or not 0 < int(found["port"]) < 65536:
        raise ValueError(f"expected host:port, such as 127.0.0.1:9190 (got '{text}')")
    _check_name(found["host"])
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


def via_of(kind: type["_Device"]) -> str:
    """The value of ``via`` that a kind of device has."""
    (via,) = get_args(kind.model_fields["via"].annotation)
    return str(via)


class _Device(Strict):
    """What devices have in common, however they are reached."""

    missing: ClassVar[dict[str, str]] = {}
    """The problem and its remedy, by the key that has to be given."""
    elsewhere: ClassVar[dict[str, str]] = {}
    """What to write for keys that are none."""

    via: str
    threads: Positive | None = None
    """Worker threads for CPU kernels (TVM_NUM_THREADS); all cores when left out. An ``rpc`` server may allow fewer."""
    timeout_s: float = Field(default=600, gt=0)
    """How long one run on the device may take, in seconds."""
    gres: Gres | None = None
    """On a Slurm cluster: the generic resource that stands for this device, such as ``phone:1``. Jobs that use the device
    ask for it, so that Slurm sends them to a node that has one, and no more of them at once than there are."""
    conditioning: Conditioning | None = None
    """What is done to the device before each measurement: cooling down, governor, clocks."""

    @model_validator(mode="before")
    @classmethod
    def _keys_fit(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        via = via_of(cls)
        for key, remedy in cls.elsewhere.items():
            if key in values:
                raise ValueError(f"'via: {via}' has no key {key}; {remedy}")
        foreign = {name: ways for name, ways in WAYS_OF_KEYS.items() if name in values and via not in ways}
        # Configs as earlier versions resolved them hold the keys of all ways, with their defaults.
        given = [name for name in foreign if values[name] not in (None, default_of(name))]
        if given:
            ways = foreign[given[0]]
            given = [name for name in given if foreign[name] == ways]
            verb, them = ("belongs", "it") if len(given) == 1 else ("belong", "them")
            raise ValueError(
                f"{', '.join(given)} {verb} to {_alternatives(ways)}, and this device is 'via: {via}'; "
                f"write {_alternatives(ways)}, or leave {them} out"
            )
        for key, problem in cls.missing.items():
            if values.get(key) is None:
                raise ValueError(problem)
        return {name: value for name, value in values.items() if name not in foreign}


class LocalDeviceConfig(_Device):
    """This machine; packages run in a process of their own. ``local`` needs no entry."""

    via: Literal["local"] = "local"
    """Packages run on this machine."""
    env: Variables = Field(default_factory=dict)
    """Environment variables for the process that runs packages; null takes the value that tvmake's own environment has. Values
    stay out of every file that is written, so that a changed one reruns nothing."""


class _RemoteDevice(_Device):
    """What devices have in common that are reached through servers."""

    session_timeout_s: Seconds = 60
    """How long a server may be held for tuning before it ends the session by itself, and with it a kernel that hangs, in
    seconds. Runs of packages may take ``timeout_s``."""
    wait_s: SomeSeconds = 30
    """How long to wait for a server to be there, and for a lost one to come back, in seconds."""
    soc: Annotated[str, StringConstraints(min_length=1, max_length=80)] | None = None
    """What the device is (``Snapdragon 8 Gen 2``): records are kept by it; when left out, the key, or what the device
    reports."""


class RpcDeviceConfig(_RemoteDevice):
    """TVM RPC servers that a tracker knows."""

    missing: ClassVar[dict[str, str]] = {
        "key": "'via: rpc' needs a key; it is what the servers are started with (rpc_server --key), such as key: android"
    }
    elsewhere: ClassVar[dict[str, str]] = dict.fromkeys(("host", "port"), "write tracker: HOST:PORT")

    via: Literal["rpc"]
    """Packages run on TVM RPC servers."""
    tracker: Annotated[str, AfterValidator(_address)] | None = None
    """The tracker's host:port; when left out, TVM_TRACKER_HOST and TVM_TRACKER_PORT of the machine that runs the
    stage."""
    key: Key
    """The key that the servers of this device are started with (``--key``); equal devices share one."""
    priority: Annotated[int, Field(ge=0)] = 1
    """Among those who wait for a device of the key, higher ones come first."""
    servers: Positive | None = None
    """How many of the key's servers one tuning job uses at once; all when left out."""

    @model_validator(mode="after")
    def _writes_no_files(self) -> "RpcDeviceConfig":
        if self.conditioning and self.conditioning.touches_files:
            raise ValueError(
                "conditioning.below_c, governor and clocks do not work over 'via: rpc', whose servers write no files; "
                "reach the device by ssh or adb, or leave them out"
            )
        return self


class _ShellDevice(_RemoteDevice):
    """What devices have in common that are reached through a shell."""

    env: Variables = Field(default_factory=dict)
    """Environment variables for the process that runs packages; null takes the value that tvmake's own environment has. Values
    stay out of every file that is written, so that a changed one reruns nothing."""
    directory: Directory | None = None
    """Where packages and programs go on the device; ``.cache/tvmake`` in the home directory over ssh,
    ``/data/local/tmp/tvmake`` over adb, when left out. Over ssh a path without a slash in front, or with ``~/``, is below the home directory."""
    programs: Text | None = None
    """Directory here with ``tvmake-run``, ``tvmake-serve`` and their libraries for the device, for processors and systems
    that tvmake has none for."""


class SshDeviceConfig(_ShellDevice):
    """Devices over ssh, with programs that are brought there."""

    missing: ClassVar[dict[str, str]] = {
        "host": "'via: ssh' needs a host; a name, address or alias of ~/.ssh/config, such as host: pi5.local"
    }
    elsewhere: ClassVar[dict[str, str]] = {"port": "write it after the host, host: pi5.local:22"}

    via: Literal["ssh"]
    """Packages run on devices over ssh."""
    host: Annotated[Annotated[list[Host], Field(min_length=1), AfterValidator(_differing)], OneOrMore]
    """The device's name, address or alias in ~/.ssh/config, with ``:port`` if need be; a list for several equal
    devices."""
    user: Text | None = None
    """The user there; that of ~/.ssh/config, or one's own, when left out."""
    identity: Text | None = None
    """File of the private key; the agent's and the usual ones when left out."""
    known_hosts: Text | None = None
    """File of the hosts' public keys; ~/.ssh/known_hosts and /etc/ssh/ssh_known_hosts when left out."""

    @field_validator("directory", mode="before")
    @classmethod
    def _below_home(cls, value: Any) -> Any:
        return value.removeprefix("~/") if isinstance(value, str) and len(value) > 2 else value


class AdbDeviceConfig(_ShellDevice):
    """Android devices over adb, with programs that are brought there."""

    via: Literal["adb"]
    """Packages run on Android devices over adb."""
    serial: Annotated[Annotated[list[Serial], Field(min_length=1)] | None, OneOrMore, AfterValidator(_differing)] = None
    """The device's serial number, as in ``adb devices``; a list for several equal ones. When left out, ANDROID_SERIAL, or
    the only device there is."""


ShellDeviceConfig = SshDeviceConfig | AdbDeviceConfig


def _local_by_default(values: Any) -> Any:
    """A device without ``via`` is this machine."""
    return {"via": "local", **values} if isinstance(values, dict) else values


DeviceConfig = Annotated[
    LocalDeviceConfig | RpcDeviceConfig | SshDeviceConfig | AdbDeviceConfig,
    Field(discriminator="via"),
    BeforeValidator(_local_by_default),
]
"""One device, or several equal ones, by how they are reached."""


DEVICES: dict[str, type[_Device]] = {
    via_of(kind): kind for kind in (LocalDeviceConfig, RpcDeviceConfig, SshDeviceConfig, AdbDeviceConfig)
}

WAYS_OF_KEYS = {
    name: tuple(via for via, kind in DEVICES.items() if name in kind.model_fields)
    for kind in DEVICES.values()
    for name in kind.model_fields
}
"""The ways to reach a device that have a key."""


def _alternatives(names: tuple[str, ...]) -> str:
    quoted = [f"'via: {name}'" for name in names]
    return " or ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)


def default_of(key: str) -> Any:
    """The value of a key that is left out, for one that only some devices have."""
    field = DEVICES[WAYS_OF_KEYS[key][0]].model_fields[key]
    return None if field.is_required() else field.get_default(call_default_factory=True)


class OnDevice(Strict):
    """A device, in a request to a stage."""

    device_name: str = "local"
    device: DeviceConfig = LocalDeviceConfig()

    @field_validator("device")
    @classmethod
    def _with_values(cls, device: _Device, info: ValidationInfo) -> _Device:
        variables = variables_of(device)
        values = announced(info.data.get("device_name", "local")) if variables else {}
        known = {name: values.get(name) if value is None else value for name, value in variables.items()}
        return device.model_copy(update={"env": known}) if values else device
