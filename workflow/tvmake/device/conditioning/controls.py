"""A device's temperatures, governor and clocks: read, set before a measurement, restored after it.

All of them are files below /sys on Linux and Android: thermal zones and cooling devices
(Documentation/driver-api/thermal/sysfs-api.rst), cpufreq (Documentation/admin-guide/pm/cpufreq.rst), and what the
Adreno driver adds (``kgsl-3d0/thermal_pwrlevel``: the fastest level that heat allows; 0 is the fastest).
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from tvmake.config.device import Conditioning
from tvmake.device.interface import RunResult
from tvmake.errors import DeviceError

ZONES = "/sys/class/thermal/thermal_zone*"
COOLERS = "/sys/class/thermal/cooling_device*"
CPUFREQ = "/sys/devices/system/cpu/cpu*/cpufreq"
COUNTERS = "/sys/devices/system/cpu/cpu*/thermal_throttle/*_throttle_count"
GPU_LIMIT = "/sys/class/kgsl/kgsl-3d0/thermal_pwrlevel"

READ = (
    f"{ZONES}/type",
    f"{ZONES}/temp",
    f"{COOLERS}/type",
    f"{COOLERS}/cur_state",
    f"{CPUFREQ}/scaling_governor",
    f"{CPUFREQ}/scaling_max_freq",
    f"{CPUFREQ}/cpuinfo_max_freq",
    COUNTERS,
    GPU_LIMIT,
)
"""Patterns of the files that are read before and after."""

PROCESSOR_ZONES = ("cpu", "gpu", "soc", "x86_pkg", "tsens")
"""Parts of thermal zones' types that belong to processors, unlike batteries, chargers and skins."""

THROTTLING_COOLERS = ("cpufreq", "devfreq", "gpu", "processor", "kgsl")
"""Parts of cooling devices' types that slow processors down, unlike fans."""

PLAUSIBLE_C = (-40.0, 150.0)
"""Zones that are off read 0 or values far outside."""

POLL_S = 2.0
"""The interval of checks whether a device has cooled down."""


class Files(Protocol):
    where: str
    """The beginning of errors: the device's name."""

    def read(self, patterns: tuple[str, ...]) -> dict[str, str]:
        """The contents of files that match shell patterns; unreadable files are skipped.

        Raises:
            Unreachable: the device was lost.
        """
        ...

    def write(self, path: str, value: str) -> None:
        """Write a file.

        Raises:
            DeviceError: it may not be written.
        """
        ...

    def guard(self, settings: Sequence["Setting"]) -> Callable[[], None]:
        """Restore files even if this process is killed; returns a function that ends the guard."""
        ...


@dataclass(frozen=True)
class Setting:
    """A file that is set temporarily."""

    path: str
    value: str
    previous: str


@dataclass(frozen=True)
class State:
    """A device's state at one moment."""

    temperatures_c: Mapping[str, float]
    """Temperatures by sensor type."""
    governors: Mapping[str, str]
    """Governors by file."""
    limited: tuple[str, ...]
    """Components that heat slows down at this moment."""
    counters: Mapping[str, int]
    """The number of times that cores were slowed down, if the device counts them."""

    @property
    def hottest(self) -> tuple[str, float] | None:
        """The hottest sensor and its temperature in °C."""
        return max(self.temperatures_c.items(), key=lambda reading: reading[1], default=None)


@dataclass
class Preparation:
    """The preparation of a device, and the settings to restore."""

    before: State
    notes: dict[str, str] = field(default_factory=dict)
    settings: list[Setting] = field(default_factory=list)
    end_guard: Callable[[], None] = lambda: None


def observe(files: Files, sensors: list[str]) -> State:
    """Read a device's state.

    Args:
        sensors: parts of the types of thermal zones to read; default: those of processors.
    """
    read = files.read(READ)
    temperatures: dict[str, float] = {}
    limited: list[str] = []
    for path, text in sorted(read.items()):
        directory, _, name = path.rpartition("/")
        kind = read.get(f"{directory}/type", "")
        if name == "temp" and _is_selected(kind, sensors) and (value := _celsius(text)) is not None:
            temperatures[kind] = max(value, temperatures.get(kind, value))
        elif name == "cur_state" and _number(text) and any(part in kind.lower() for part in THROTTLING_COOLERS):
            limited.append(f"{kind} at level {text}")
        elif name == "scaling_max_freq" and _number(text) < _number(read.get(f"{directory}/cpuinfo_max_freq", "")):
            limited.append(f"{directory.split('/')[-2]} to {_number(text) / 1000:g} MHz")
        elif path == GPU_LIMIT and _number(text):
            limited.append(f"GPU to power level {text}")
    return State(
        temperatures,
        {path: text for path, text in read.items() if path.endswith("/scaling_governor")},
        tuple(limited),
        {path: _number(text) for path, text in read.items() if path.endswith("_throttle_count")},
    )


def prepare(files: Files, conditioning: Conditioning, sleep: Callable[[float], None] = time.sleep) -> Preparation:
    """Set governor and clocks, rest, and wait until the device is cool.

    Raises:
        DeviceError: a setting is refused (earlier ones are restored), or the device stays hot.
    """
    preparation = Preparation(observe(files, conditioning.sensors))
    try:
        _set(files, conditioning, preparation)
        if conditioning.pause_s:
            sleep(conditioning.pause_s)
            preparation.notes["paused_s"] = f"{conditioning.pause_s:g}"
        if conditioning.below_c is not None:
            preparation.notes["cooled_s"] = f"{_cool_down(files, conditioning, sleep):.0f}"
        if preparation.settings or preparation.notes:
            preparation.before = observe(files, conditioning.sensors)
    except BaseException:
        restore(files, preparation)
        raise
    return preparation


def restore(files: Files, preparation: Preparation) -> None:
    """Restore settings in reverse order."""
    while preparation.settings:
        setting = preparation.settings.pop()
        if files.read((setting.path,)).get(setting.path) == setting.value:  # False if it was never set
            files.write(setting.path, setting.previous)
    preparation.end_guard()


def conditions(preparation: Preparation, after: State) -> dict[str, str]:
    """Conditions of a measurement: temperatures, governor, preparation, and whether heat slowed it down."""
    notes = dict(preparation.notes)
    for when, state in (("before", preparation.before), ("after", after)):
        if state.hottest:
            sensor, value = state.hottest
            notes[f"temperature_{when}"] = f"{value:.1f} °C ({sensor})"
    if governors := sorted(set(preparation.before.governors.values())):
        notes["governor"] = ", ".join(governors)
    notes["throttled"] = _throttled(preparation.before, after)
    return notes


@contextmanager
def condition(files: Files, conditioning: Conditioning) -> Iterator[dict[str, str]]:
    """Condition for a block; the dictionary is filled with the device's state when it ends.

    Raises:
        DeviceError: as :func:`prepare`.
    """
    notes: dict[str, str] = {}
    preparation = prepare(files, conditioning)
    try:
        yield notes
        notes.update(conditions(preparation, observe(files, conditioning.sensors)))
    finally:
        restore(files, preparation)


def with_conditions(result: RunResult, notes: dict[str, str]) -> RunResult:
    conditions = {**result.timing.conditions, **notes}
    return result.model_copy(update={"timing": result.timing.model_copy(update={"conditions": conditions})})


def _throttled(before: State, after: State) -> str:
    signs = list(dict.fromkeys([*before.limited, *after.limited]))
    slowed = sum(count - before.counters.get(path, count) for path, count in after.counters.items())
    if slowed > 0:
        signs.append(f"cores slowed down {slowed} times")
    if signs:
        return f"yes: {'; '.join(signs)}"
    # Without sensors nothing is known; with sensors nothing was measured.
    return "no" if after.temperatures_c or after.counters or after.governors else "not known"


def _set(files: Files, conditioning: Conditioning, preparation: Preparation) -> None:
    wanted_values = (
        [(path, conditioning.governor) for path in sorted(preparation.before.governors)]
        if conditioning.governor
        else []
    )
    if conditioning.governor and not wanted_values:
        raise DeviceError(files.where, "it has no cpufreq governor", "leave conditioning.governor out")
    settings: list[Setting] = []
    wanted_values += conditioning.clocks.items()
    current = files.read(tuple(path for path, _ in wanted_values)) if wanted_values else {}
    for path, value in wanted_values:
        previous = current.get(path)
        if previous is None:
            raise DeviceError(files.where, f"it has no readable {path}", "correct conditioning.clocks")
        if previous != value:
            settings.append(Setting(path, value, previous))
    if settings:
        preparation.end_guard = files.guard(settings)
    for setting in settings:
        preparation.settings.append(setting)
        files.write(setting.path, setting.value)
    if conditioning.clocks:
        preparation.notes["clocks"] = ", ".join(f"{path}={value}" for path, value in conditioning.clocks.items())


def _cool_down(files: Files, conditioning: Conditioning, sleep: Callable[[float], None]) -> float:
    """Wait; returns the waiting time in seconds."""
    assert conditioning.below_c is not None
    began = time.monotonic()
    waited = 0.0
    while True:
        hottest = observe(files, conditioning.sensors).hottest
        if hottest is None:
            raise DeviceError(
                files.where,
                "it has no readable temperature sensor"
                + (f" among {', '.join(conditioning.sensors)}" if conditioning.sensors else ""),
                "use conditioning.pause_s instead of below_c, or name conditioning.sensors "
                "(`tvmake device info` lists them)",
            )
        sensor, value = hottest
        if value < conditioning.below_c:
            return waited
        if waited >= conditioning.wait_s:
            problem = f"{sensor} is at {value:.1f} °C after {waited:.0f} s, not below {conditioning.below_c:g} °C"
            raise DeviceError(files.where, problem, "cool the device, or raise conditioning.below_c or wait_s")
        sleep(POLL_S)
        waited = max(waited + POLL_S, time.monotonic() - began)


def _is_selected(kind: str, sensors: list[str]) -> bool:
    return any(part.lower() in kind.lower() for part in sensors or PROCESSOR_ZONES)


def _celsius(text: str) -> float | None:
    """From millidegrees, or from degrees for drivers that report these."""
    if not re.fullmatch(r"-?\d+", text):
        return None
    number = int(text)
    value = number / 1000 if abs(number) >= 1000 else float(number)
    return value if PLAUSIBLE_C[0] < value < PLAUSIBLE_C[1] and value else None


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0
