"""``devices:`` — how to reach the machines that packages run on."""

import re
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)

from tvmake.config.device_variables import Variables, exported_variables, variables_of
from tvmake.options import Positive, Strict

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
SomeSeconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=200)]

ADDRESS = re.compile(r"(?P<host>[^\s:/\[\]]+|\[[0-9A-Fa-f:.]+\]):(?P<port>\d{1,5})")


def _address(text: str) -> str:
    split_address(text)
    return text


def _matching(pattern: str, expected: str) -> AfterValidator:
    """Return a validator for strings that match the pattern completely."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"expected {expected} (got '{text}')")
        return text

    return AfterValidator(check)


def _as_list(value: Any) -> Any:
    """Turn a single value into a list."""
    return value if value is None or isinstance(value, list | tuple) else [value]


def _serial(value: Any) -> Any:
    """Accept a serial number that YAML reads as an integer."""
    return str(value) if isinstance(value, int) else value


def _host(text: str) -> str:
    user, at, host = text.removeprefix("ssh://").rstrip("/").partition("@")
    if text.startswith("ssh://") and not at:
        raise ValueError(f"a host does not include the protocol (got '{text}'); write host: {user}")
    if at and user and host:
        raise ValueError(f"a host does not include the user (got '{text}'); write user: {user}, host: {host}")
    port = re.search(r"(?<=:)\d+$", text)
    if port and not text.startswith("[") and not 0 < int(port[0]) < 65536:
        raise ValueError(f"expected a port from 1 to 65535 (got '{text}')")
    _check_name(text)
    return text


def _check_name(host: str) -> None:
    try:
        host.encode("idna")  # as for the system's resolver
    except UnicodeError:
        raise ValueError(f"not a host name: the parts between dots must have 1 to 63 letters (got '{host}')") from None


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
            f"~/ works over ssh only, for the ssh user's home directory (got '{text}'); write the whole path"
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


def _check_unique(names: list[str] | None) -> list[str] | None:
    """Refuse a device that is named twice, because two jobs would measure on it at a time."""
    if twice := sorted({name for name in names or () if (names or []).count(name) > 1}):
        raise ValueError(f"names {', '.join(twice)} twice; name each device once")
    return names


OneOrMore = BeforeValidator(_as_list, json_schema_input_type=str | list[str] | None)


def split_address(text: str) -> tuple[str, int]:
    """Split ``host:port`` or ``[::1]:9190`` into host and port.

    Raises:
        ValueError: the text is not an address.
    """
    match = ADDRESS.fullmatch(text)
    if match is None or not 0 < int(match["port"]) < 65536:
        raise ValueError(f"expected host:port, such as 127.0.0.1:9190 (got '{text}')")
    _check_name(match["host"])
    return match["host"].strip("[]"), int(match["port"])


class Conditioning(Strict):
    """Prepare a device before each measurement; settings are restored after it."""

    pause_s: SomeSeconds = 0
    """Rest for this long, in seconds."""
    below_c: Annotated[float, Field(gt=0, lt=150)] | None = None
    """Wait until every sensor is below this temperature, in °C. Not over ``rpc``."""
    wait_s: Seconds = 600
    """How long to wait for ``below_c`` before the measurement fails, in seconds."""
    sensors: list[Text] = Field(default_factory=list)
    """Thermal zones to read: those whose type contains one of these. By default all zones of a CPU, GPU or SoC."""
    governor: Setting | None = None
    """CPU frequency governor to measure with, such as ``performance``; needs root on the device. Not over ``rpc``."""
    clocks: dict[SystemFile, Setting] = Field(default_factory=dict)
    """Files below /sys with the values to write, in this order, such as a GPU's minimum clock; needs root. Not over
    ``rpc``."""

    @property
    def touches_files(self) -> bool:
        """Whether conditioning reads or writes files on the device."""
        return bool(self.below_c is not None or self.governor or self.clocks)


def via_of(kind: type["_Device"]) -> str:
    """Return the value of ``via`` of a device class."""
    (via,) = get_args(kind.model_fields["via"].annotation)
    return str(via)


class _Device(Strict):
    """Keys of every device."""

    via: str
    threads: Positive | None = None
    """Worker threads for CPU kernels (TVM_NUM_THREADS); all cores by default. An ``rpc`` server may allow fewer."""
    timeout_s: float = Field(default=600, gt=0)
    """Time limit of one run on the device, in seconds."""
    gres: Gres | None = None
    """On a Slurm cluster: the generic resource of this device, such as ``phone:1``. Jobs that use the device request it, so
    that Slurm sends them to a node that has one, and never more jobs than devices."""
    conditioning: Conditioning | None = None
    """Preparation of the device before each measurement: cooling down, governor, clocks."""

    @model_validator(mode="before")
    @classmethod
    def _keys_fit(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        via = via_of(cls)
        foreign = {name: ways for name, ways in WAYS_OF_KEYS.items() if name in values and via not in ways}
        for name, ways in foreign.items():
            raise ValueError(
                f"{name} belongs to {_alternatives(ways)}, and this device is 'via: {via}'; "
                f"write {_alternatives(ways)}, or leave it out"
            )
        return values


class LocalDeviceConfig(_Device):
    """This machine; packages run in a separate process. ``local`` needs no entry."""

    via: Literal["local"] = "local"
    """Packages run on this machine."""
    env: Variables = Field(default_factory=dict)
    """Environment variables for the process that runs packages; null takes the value from tvmake's environment. Values are
    never written to files, so changing one reruns nothing."""


class _RemoteDevice(_Device):
    """Keys of devices that are reached through servers."""

    session_timeout_s: Seconds = 60
    """Longest tuning session in seconds. The server then ends the session, and with it a kernel that hangs. Runs of
    packages may take ``timeout_s``."""
    wait_s: SomeSeconds = 30
    """How long to wait for a server to start, or for a lost one to return, in seconds."""
    soc: Annotated[str, StringConstraints(min_length=1, max_length=80)] | None = None
    """The device's chip (``Snapdragon 8 Gen 2``), by which records are stored. By default the key, or the name that the
    device reports."""


class RpcDeviceConfig(_RemoteDevice):
    """TVM RPC servers at a tracker."""

    via: Literal["rpc"]
    """Packages run on TVM RPC servers."""
    tracker: Annotated[str, AfterValidator(_address)] | None = None
    """The tracker's host:port. By default TVM_TRACKER_HOST and TVM_TRACKER_PORT of the machine that runs the stage."""
    key: Key
    """The key of this device's servers (``--key``); identical devices share one key."""
    priority: Annotated[int, Field(ge=0)] = 1
    """Priority among the clients that wait for a device of the key; higher values come first."""
    servers: Positive | None = None
    """How many of the key's servers one tuning job uses at once; all by default."""

    @model_validator(mode="after")
    def _writes_no_files(self) -> "RpcDeviceConfig":
        if self.conditioning and self.conditioning.touches_files:
            raise ValueError(
                "conditioning.below_c, governor and clocks do not work over 'via: rpc', whose servers write no files; "
                "reach the device by ssh or adb, or leave them out"
            )
        return self


class _ShellDevice(_RemoteDevice):
    """Keys of devices that are reached through a shell."""

    env: Variables = Field(default_factory=dict)
    """Environment variables for the process that runs packages; null takes the value from tvmake's environment. Values are
    never written to files, so changing one reruns nothing."""
    directory: Directory | None = None
    """Directory of packages and programs on the device. By default ``.cache/tvmake`` in the home directory over ssh and
    ``/data/local/tmp/tvmake`` over adb. Over ssh a relative path, or one with ``~/``, is below the home directory."""
    programs: Text | None = None
    """Local directory with ``tvmake-run``, ``tvmake-serve`` and their libraries for the device; for processors and systems
    without programs in tvmake."""


class SshDeviceConfig(_ShellDevice):
    """Devices over ssh; tvmake copies its programs there."""

    via: Literal["ssh"]
    """Packages run on devices over ssh."""
    host: Annotated[Annotated[list[Host], Field(min_length=1), AfterValidator(_check_unique)], OneOrMore]
    """The device's name, address or alias in ~/.ssh/config, optionally with ``:port``; a list for several identical
    devices."""
    user: Text | None = None
    """The user on the device. By default that of ~/.ssh/config, or your own."""
    identity: Text | None = None
    """File of the private key. By default the agent's keys and the usual files."""
    known_hosts: Text | None = None
    """File of the hosts' public keys. By default ~/.ssh/known_hosts and /etc/ssh/ssh_known_hosts."""

    @field_validator("directory", mode="before")
    @classmethod
    def _below_home(cls, value: Any) -> Any:
        return value.removeprefix("~/") if isinstance(value, str) and len(value) > 2 else value


class AdbDeviceConfig(_ShellDevice):
    """Android devices over adb; tvmake copies its programs there."""

    via: Literal["adb"]
    """Packages run on Android devices over adb."""
    serial: Annotated[Annotated[list[Serial], Field(min_length=1)] | None, OneOrMore, AfterValidator(_check_unique)] = (
        None
    )
    """The device's serial number, as in ``adb devices``; a list for several identical devices. By default ANDROID_SERIAL, or
    the only connected device."""


ShellDeviceConfig = SshDeviceConfig | AdbDeviceConfig


def _default_to_local(values: Any) -> Any:
    """Read a device without ``via`` as this machine."""
    return {"via": "local", **values} if isinstance(values, dict) else values


DeviceConfig = Annotated[
    LocalDeviceConfig | RpcDeviceConfig | SshDeviceConfig | AdbDeviceConfig,
    Field(discriminator="via"),
    BeforeValidator(_default_to_local),
]
"""One device, or several identical ones, by connection."""


DEVICES: dict[str, type[_Device]] = {
    via_of(kind): kind for kind in (LocalDeviceConfig, RpcDeviceConfig, SshDeviceConfig, AdbDeviceConfig)
}

WAYS_OF_KEYS = {
    name: tuple(via for via, kind in DEVICES.items() if name in kind.model_fields)
    for kind in DEVICES.values()
    for name in kind.model_fields
}
"""The values of ``via`` that have a key."""


def _alternatives(names: tuple[str, ...]) -> str:
    quoted = [f"'via: {name}'" for name in names]
    return " or ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)


class OnDevice(Strict):
    """A device in a stage's request."""

    device_name: str = "local"
    device: DeviceConfig = LocalDeviceConfig()

    @field_validator("device")
    @classmethod
    def _with_values(cls, device: _Device, info: ValidationInfo) -> _Device:
        variables = variables_of(device)
        values = exported_variables(info.data.get("device_name", "local")) if variables else {}
        env = {name: values.get(name) if value is None else value for name, value in variables.items()}
        return device.model_copy(update={"env": env}) if values else device
