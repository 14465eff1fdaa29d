"""Conditioning: cool, governor and clocks set, put back, all of it said; throttling is seen."""

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.codegen.conftest import Transformed, static_net  # noqa: F401  # fixtures
from tests.device.configs import device_config
from tests.device.local.test_local import image, inputs_file, own_store, package, packed  # noqa: F401  # fixtures
from tests.device.transport.adb_phone import Phone
from tests.device.transport.adb_stand_in import AdbServer
from tests.native import devices as native
from tests.process.fixtures import shared_servers  # noqa: F401  # a fixture
from tests.tune.measure import kernels
from tests.tune.measure.conftest import QUICK
from tests.tune.measure.processes import eventually
from tvmake.config.benchmark import Measurement
from tvmake.config.device import Conditioning
from tvmake.config.requests.tuning import TuneRequest
from tvmake.config.target import TargetConfig
from tvmake.device.conditioning import controls as conditioning
from tvmake.device.conditioning.controls import conditions, observe, prepare, restore
from tvmake.device.conditioning.files import LocalFiles
from tvmake.device.connect import connect
from tvmake.device.interface import RunRequest
from tvmake.device.time_slots import LocalSlots, SlotCancelled
from tvmake.errors import DeviceError
from tvmake.tune.measure.connect import measurer
from tvmake.tune.measure.local import LocalMeasurer

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("shared_servers")]

GOVERNORS = tuple(f"/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor" for core in range(2))
CLOCK = "/sys/class/kgsl/kgsl-3d0/force_clk_on"
TEMPERATURE = "/sys/class/thermal/thermal_zone0/temp"

MEASURED = RunRequest(samples=1, measurement=Measurement(repeat=1, warmup=0))


class Machine:
    """A machine's /sys below a directory."""

    def __init__(self, root: Path):
        self.root = root
        self.sets("/sys/class/thermal/thermal_zone0/type", "cpu-thermal")
        self.sets(TEMPERATURE, "41500")
        self.sets("/sys/class/thermal/thermal_zone1/type", "battery")
        self.sets("/sys/class/thermal/thermal_zone1/temp", "80000")
        self.sets("/sys/class/thermal/cooling_device0/type", "thermal-cpufreq-0")
        self.sets("/sys/class/thermal/cooling_device0/cur_state", "0")
        for governor in GOVERNORS:
            self.sets(governor, "schedutil")
            directory = governor.rpartition("/")[0]
            self.sets(f"{directory}/scaling_max_freq", "2400000")
            self.sets(f"{directory}/cpuinfo_max_freq", "2400000")
        self.sets(CLOCK, "0")

    def sets(self, path: str, value: str) -> None:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = file.with_suffix(".fresh")  # nobody is to read half of it
        fresh.write_text(f"{value}\n")
        fresh.replace(file)

    def says(self, path: str) -> str:
        return (self.root / path.lstrip("/")).read_text().strip()

    @property
    def files(self) -> LocalFiles:
        return LocalFiles("device 'board'", self.root)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "root")


def test_governor_and_clocks_are_set_and_put_back(machine: Machine):
    preparation = prepare(machine.files, Conditioning(governor="performance", clocks={CLOCK: "1"}))
    assert {machine.says(governor) for governor in GOVERNORS} == {"performance"} and machine.says(CLOCK) == "1"
    notes = conditions(preparation, observe(machine.files, []))
    assert notes["governor"] == "performance" and notes["clocks"] == f"{CLOCK}=1"
    restore(machine.files, preparation)
    assert {machine.says(governor) for governor in GOVERNORS} == {"schedutil"} and machine.says(CLOCK) == "0"


def test_what_was_set_is_put_back_when_the_next_thing_cannot_be(machine: Machine):
    how = Conditioning(governor="performance", clocks={CLOCK: "1", "/sys/no/such/file": "1"})
    with pytest.raises(DeviceError, match="it has no readable /sys/no/such/file"):
        prepare(machine.files, how)
    assert {machine.says(governor) for governor in GOVERNORS} == {"schedutil"} and machine.says(CLOCK) == "0"


def test_a_device_that_cools_down_is_waited_for(machine: Machine):
    machine.sets(TEMPERATURE, "55000")

    def rest(seconds: float) -> None:
        machine.sets(TEMPERATURE, str(int(machine.says(TEMPERATURE)) - 5000))

    preparation = prepare(machine.files, Conditioning(below_c=46), rest)
    assert machine.says(TEMPERATURE) == "45000"
    notes = conditions(preparation, observe(machine.files, []))
    assert notes["cooled_s"] == "4" and notes["temperature_before"] == "45.0 °C (cpu-thermal)"
    assert notes["throttled"] == "no"


def test_a_device_that_stays_hot_is_one_clear_error_and_is_put_back(machine: Machine):
    how = Conditioning(below_c=40, wait_s=10, governor="performance")
    with pytest.raises(DeviceError) as caught:
        prepare(machine.files, how, lambda _: None)
    assert str(caught.value).splitlines() == [
        "device 'board': cpu-thermal is at 41.5 °C after 10 s, not below 40 °C",
        "  cool the device, or raise conditioning.below_c or wait_s",
    ]
    assert machine.says(GOVERNORS[0]) == "schedutil"


def test_a_device_without_sensors_says_so(tmp_path: Path):
    bare = LocalFiles("device 'board'", tmp_path)
    with pytest.raises(DeviceError, match="it has no readable temperature sensor"):
        prepare(bare, Conditioning(below_c=40))
    with pytest.raises(DeviceError, match="it has no cpufreq governor"):
        prepare(bare, Conditioning(governor="performance"))
    assert conditions(prepare(bare, Conditioning()), observe(bare, [])) == {"throttled": "not known"}


@pytest.mark.parametrize(
    ("path", "value", "sign"),
    [
        ("/sys/class/thermal/cooling_device0/cur_state", "3", "thermal-cpufreq-0 at level 3"),
        ("/sys/devices/system/cpu/cpu1/cpufreq/scaling_max_freq", "1800000", "cpu1 to 1800 MHz"),
        (conditioning.GPU_LIMIT, "2", "GPU to power level 2"),
        ("/sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "7", "cores slowed down 7 times"),
    ],
)
def test_throttling_is_seen(machine: Machine, path: str, value: str, sign: str):
    machine.sets("/sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "0")
    preparation = prepare(machine.files, Conditioning())
    machine.sets(path, value)
    assert conditions(preparation, observe(machine.files, []))["throttled"] == f"yes: {sign}"


def test_sensors_may_be_chosen(machine: Machine):
    assert observe(machine.files, ["batt"]).hottest == ("battery", 80.0)
    assert observe(machine.files, []).hottest == ("cpu-thermal", 41.5)


# --- as part of a measurement --------------------------------------------------------------------------------------


@pytest.fixture
def phone(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Phone]:
    server = AdbServer(tmp_path_factory.mktemp("phones"))
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    phone = server.add("R58M123")
    Machine(phone.root)
    yield phone
    server.close()


def test_a_benchmark_over_adb_is_conditioned_and_says_so(phone: Phone, package: Path, tmp_path: Path):  # noqa: F811
    programs = tmp_path / "programs"
    shutil.copytree(native.programs(), programs)
    (programs / "tvmake-run").rename(programs / "really-run")
    # What the governor is while it runs.
    (programs / "tvmake-run").write_text(
        f'#!/bin/sh\ncp {phone.root}{GOVERNORS[0]} {tmp_path}/seen\nexec "$(dirname "$0")/really-run" "$@"\n'
    )
    how = {"governor": "performance", "below_c": 60}
    device = connect("phone", device_config(via="adb", programs=str(programs), conditioning=how))
    inputs = inputs_file(tmp_path / "in.npz", image())
    with device.exclusive():
        timing = device.execute(device.push(package), MEASURED, inputs, None).timing
    assert (tmp_path / "seen").read_text() == "performance"
    assert phone.path(GOVERNORS[0]).read_text() == "schedutil"
    conditions = timing.conditions
    assert conditions["temperature_before"] == conditions["temperature_after"] == "41.5 °C (cpu-thermal)"
    assert (conditions["governor"], conditions["throttled"], conditions["device"]) == ("performance", "no", "phone")


KILLED = """
from pathlib import Path
from tvmake.config.device import AdbDeviceConfig, Conditioning
from tvmake.config.requests.tuning import TuneRequest
from tvmake.config.target import TargetConfig
from tvmake.device.conditioning.controls import prepare
from tvmake.device.conditioning.files import LocalFiles, ShellFiles
from tvmake.device.transport.shell_devices import shell_devices
{files}
prepare(files, Conditioning(governor="performance"))
print("set", flush=True)
input()
"""


@pytest.mark.parametrize(
    "files",
    [
        "files = LocalFiles('here', Path({root!r}))",
        "(phone,) = shell_devices('phone', AdbDeviceConfig(via='adb'))\nfiles = ShellFiles(phone.shell().__enter__())",
    ],
)
def test_a_governor_is_put_back_when_the_process_that_set_it_is_killed(phone: Phone, files: str):
    script = KILLED.format(files=files.format(root=str(phone.root)))
    setter = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert setter.stdout is not None and setter.stdout.readline() == "set\n"
    assert {phone.path(governor).read_text() for governor in GOVERNORS} == {"performance"}
    setter.kill()
    setter.wait()
    eventually(lambda: {phone.path(governor).read_text() for governor in GOVERNORS} == {"schedutil"})


def test_a_setting_that_needs_root_is_named(phone: Phone, package: Path, tmp_path: Path):  # noqa: F811
    phone.says("su", "echo su: not allowed >&2; exit 1")
    phone.path(CLOCK).unlink()
    phone.path(CLOCK).symlink_to("/proc/version")  # which not even root writes
    device = connect(
        "phone", device_config(via="adb", conditioning={"governor": "performance", "clocks": {CLOCK: "1"}})
    )
    inputs = inputs_file(tmp_path / "in.npz", image())
    with pytest.raises(DeviceError) as caught:
        device.execute(device.push(package), MEASURED, inputs, None)
    assert str(caught.value).splitlines() == [
        f"device 'phone': {CLOCK} cannot be set to 1 (su: not allowed)",
        "  conditioning needs root there; leave governor and clocks out",
    ]
    assert phone.path(GOVERNORS[0]).read_text() == "schedutil"


def test_a_run_that_measures_nothing_is_not_conditioned(package: Path, tmp_path: Path):  # noqa: F811
    device = connect("local", device_config(conditioning={"pause_s": 1000}))
    inputs = inputs_file(tmp_path / "in.npz", image())
    device.execute(device.push(package), RunRequest(samples=1), inputs, tmp_path / "out.npz")


def test_a_local_measurement_says_what_was_seen(package: Path, tmp_path: Path):  # noqa: F811
    device = connect("local", device_config(conditioning={"pause_s": 0.01}))
    with device.exclusive():
        timing = device.execute(device.push(package), MEASURED, inputs_file(tmp_path / "in.npz", image()), None).timing
    assert timing.conditions["paused_s"] == "0.01" and "throttled" in timing.conditions


def test_a_local_measurement_is_looked_at_though_nothing_is_asked(package: Path, tmp_path: Path):  # noqa: F811
    device = connect("local", device_config())
    timing = device.execute(device.push(package), MEASURED, inputs_file(tmp_path / "in.npz", image()), None).timing
    assert timing.conditions["throttled"] and "paused_s" not in timing.conditions


# --- tuning --------------------------------------------------------------------------------------------------------


def never() -> bool:
    return False


def test_processes_that_take_turns_keep_the_governor_and_the_last_one_puts_it_back(machine: Machine):
    how = Conditioning(governor="performance")
    one, other = (LocalSlots("board", machine.files, how) for _ in range(2))
    for slots in (one, other, one):
        with slots.slot(None, True, never) as seen:
            assert machine.says(GOVERNORS[0]) == "performance"
        assert (seen["governor"], seen["throttled"]) == ("performance", "no")
        assert machine.says(GOVERNORS[0]) == "performance"
    one.close()
    assert machine.says(GOVERNORS[0]) == "schedutil"
    with other.slot(None, False, never) as seen:
        assert machine.says(GOVERNORS[0]) == seen.get("governor", "performance")
    other.close()
    assert [machine.says(governor) for governor in GOVERNORS] == ["schedutil"] * 2


def test_a_batch_begins_cool_and_its_candidates_say_what_was_seen(machine: Machine, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(conditioning, "POLL_S", 0.1)
    machine.sets(TEMPERATURE, "70000")
    slots = LocalSlots("board", machine.files, Conditioning(below_c=50))
    with slots.slot(None, False, never) as seen:
        machine.sets(f"{GOVERNORS[0].rpartition('/')[0]}/scaling_max_freq", "1200000")
    assert seen["temperature_before"] == "70.0 °C (cpu-thermal)" and seen["throttled"] == "yes: cpu0 to 1200 MHz"
    threading.Timer(0.3, machine.sets, [TEMPERATURE, "45000"]).start()
    with slots.slot(None, True, never) as seen:
        pass
    assert seen["temperature_before"] == "45.0 °C (cpu-thermal)" and "cooled_s" in seen
    machine.sets(TEMPERATURE, "70000")
    with pytest.raises(SlotCancelled), slots.slot(None, True, lambda: True):
        raise AssertionError("it is hot")


def test_candidates_are_looked_at_and_rest_comes_before_a_batch(monkeypatch: pytest.MonkeyPatch):
    how = Conditioning(pause_s=0.01)
    with closing(LocalMeasurer(kernels.target(), QUICK, 1, "conditioned", threads=1, conditioning=how)) as measurer:
        for _ in range(2):
            first, second = measurer.measure([kernels.add(number) for number in range(2)])
            assert first.conditions["paused_s"] == "0.01" and "paused_s" not in second.conditions
            assert first.conditions["throttled"] and second.conditions["throttled"]


def test_tuning_over_adb_is_conditioned_and_puts_everything_back(phone: Phone):
    config = device_config(
        via="adb", programs=str(native.programs()), threads=1, conditioning={"governor": "performance", "below_c": 60}
    )
    request = TuneRequest(
        target_name="phone", target=TargetConfig(kind="llvm"), device_name="phone", device=config, measure=QUICK
    )
    with measurer(request, kernels.target()) as measuring:
        first, second = measuring.measure([kernels.add(number) for number in range(2)])
        assert phone.path(GOVERNORS[0]).read_text() == "performance"
    for measured in (first, second):
        assert (measured.status, measured.conditions["governor"], measured.conditions["throttled"]) == (
            "ok",
            "performance",
            "no",
        )
        assert measured.conditions["temperature_after"] == "41.5 °C (cpu-thermal)"
    assert {phone.path(governor).read_text() for governor in GOVERNORS} == {"schedutil"}
