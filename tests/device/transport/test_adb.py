"""Devices over adb, by a stand-in that speaks adb's protocol: packages run there, and each way of failing has its own error."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tests.codegen.conftest import Transformed, static_net  # noqa: F401  # fixtures
from tests.device.configs import ENDLESS, device_config
from tests.device.local.test_local import image, inputs_file, own_store, package, packed  # noqa: F401  # fixtures
from tests.device.rpc.test_rpc import outputs_of
from tests.device.transport.adb_phone import Phone
from tests.device.transport.adb_stand_in import AdbServer
from tests.device.transport.test_ssh import error_of, running
from tests.native import devices as native
from tests.patience import HANG_S
from tests.process.fixtures import shared_servers  # noqa: F401  # a fixture
from tests.tune.measure import kernels
from tests.tune.measure.conftest import QUICK
from tests.tune.measure.farm import free_port
from tests.tune.measure.processes import eventually
from tvmake.artifact.package import LIBRARY
from tvmake.config.benchmark import Measurement
from tvmake.config.requests.tuning import TuneRequest
from tvmake.config.target import TargetConfig
from tvmake.device.connect import connect
from tvmake.device.interface import RunRequest
from tvmake.device.rpc.serving import Serving
from tvmake.device.sharing.group import Group, device_id
from tvmake.device.sharing.health import health
from tvmake.device.transport.adb import read_listing
from tvmake.device.transport.shell import Unreachable
from tvmake.tune.measure.connect import measurer

pytestmark = pytest.mark.usefixtures("shared_servers")

SERIAL = "R58M123ABC"


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[AdbServer]:
    server = AdbServer(tmp_path_factory.mktemp("phones"))
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("ANDROID_SERIAL", raising=False)
    yield server
    server.close()


@pytest.fixture
def plugged(server: AdbServer) -> Phone:
    return server.add(SERIAL)


@pytest.fixture(scope="module")
def programs() -> Path:
    return native.programs()


def phone(**config: object) -> Group:
    device = connect("phone", device_config(via="adb", **config))
    assert isinstance(device, Group)
    return device


# --- packages ------------------------------------------------------------------------------------------------------


def test_a_package_gives_the_same_outputs_there_as_here(plugged: Phone, programs: Path, package: Path, tmp_path: Path):  # noqa: F811
    request = RunRequest(samples=2, repeat_first=True)
    inputs = inputs_file(tmp_path / "in.npz", image(0), image(1))
    results = {}
    for device in (phone(programs=str(programs)), connect("local", device_config())):
        device.execute(device.push(package), request, inputs, tmp_path / f"{device.name}.npz")
        results[device.name] = outputs_of(tmp_path / f"{device.name}.npz", 3)
    for there, here in zip(results["phone"], results["local"], strict=True):
        assert np.array_equal(there, here)
    assert list(plugged.path("/data/local/tmp/tvmake/runs").iterdir()) == []


def test_an_unchanged_package_moves_no_payload_bytes_and_a_damaged_one_is_sent_again(plugged: Phone, package: Path):  # noqa: F811
    (member,) = phone().members
    deployment, sent = member.push_counted(package)
    assert deployment.location.startswith("/data/local/tmp/tvmake/packages/")
    assert sent == sum(size for _, size in plugged.received) > deployment.size_bytes / 2
    plugged.received.clear()
    assert member.push_counted(package) == (deployment, 0)
    assert plugged.received == []
    library = plugged.path(f"{deployment.location}/{LIBRARY}")
    library.write_bytes(library.read_bytes()[:-9])
    assert member.push_counted(package)[1] == sent


def test_the_phone_says_who_it_is(plugged: Phone):
    fingerprint = phone().fingerprint()
    assert (fingerprint.soc, fingerprint.os) == ("QTI SM8550", "Android 14")
    assert fingerprint.details["gpu"] == "Adreno (TM) 740" and fingerprint.details["gpu_driver"] == "V@0676.42"
    assert fingerprint.details["build"] == "stand/in/one:14/UP1A.231005.007/1:user/release-keys"
    assert fingerprint.details["product"] == "Stand In One"
    assert fingerprint.details["root"] in ("no", "with su")  # this machine's su represents the phone's
    assert SERIAL not in fingerprint.model_dump_json()
    plugged.says("id", "echo 0")
    assert phone(soc="Snapdragon 8 Gen 2").fingerprint().details["root"] == "yes"
    assert phone(soc="Snapdragon 8 Gen 2").fingerprint().soc == "Snapdragon 8 Gen 2"


def test_a_run_that_takes_too_long_is_ended_there(plugged: Phone, programs: Path, package: Path, tmp_path: Path):  # noqa: F811
    device = phone(programs=str(programs), timeout_s=2)
    deployment = device.push(package)
    problem, _ = error_of(device.execute, deployment, ENDLESS, inputs_file(tmp_path / "in.npz", image()), None)
    assert problem == "device 'phone': the run did not end within 2 s"
    eventually(lambda: not running(f"--package {plugged.root}{deployment.location}"))


def test_a_crash_there_is_one_clear_line_and_the_phones_log_of_it_is_kept(
    plugged: Phone,
    programs: Path,
    package: Path,  # noqa: F811
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
):
    plugged.says("logcat", "echo 'F DEBUG: signal 11 (SIGSEGV), fault addr 0x0'")
    crashing = tmp_path / "programs"
    shutil.copytree(programs, crashing)
    (crashing / "tvmake-run").write_text("#!/bin/sh\nkill -SEGV $$\n")
    device = phone(programs=str(crashing))
    deployment = device.push(package)
    inputs = inputs_file(tmp_path / "in.npz", image())
    problem, _ = error_of(device.execute, deployment, RunRequest(samples=1), inputs, None)
    assert problem == "device 'phone': running the package ended with SIGSEGV"
    assert "phone: F DEBUG: signal 11 (SIGSEGV), fault addr 0x0" in capfd.readouterr().err


def test_a_phone_that_is_unplugged_in_the_middle_is_named(
    server: AdbServer,
    plugged: Phone,
    programs: Path,
    package: Path,  # noqa: F811
    tmp_path: Path,
):
    import threading

    device = phone(programs=str(programs))
    deployment = device.push(package)
    inputs = inputs_file(tmp_path / "in.npz", image())
    run = f"tvmake-run --package {plugged.root}{deployment.location}"

    def unplug() -> None:
        eventually(lambda: running(run))
        server.unplug(SERIAL)

    thread = threading.Thread(target=unplug)
    thread.start()
    with pytest.raises(Unreachable, match=r"device 'phone': the connection was lost"):
        device.execute(deployment, ENDLESS, inputs, None)
    thread.join()
    eventually(lambda: not running(run))


# --- which device, and what is wrong with it -----------------------------------------------------------------------


def test_no_device_is_connected(server: AdbServer):
    assert error_of(phone().fingerprint) == [
        "device 'phone': adb lists no device",
        "connect it and allow USB debugging (Developer options); `adb devices -l` lists the connected ones",
    ]


def test_another_device_is_connected(plugged: Phone):
    assert error_of(phone(serial="ABC").fingerprint)[0] == (
        f"device 'phone' (ABC): adb does not list device ABC; adb lists {SERIAL}"
    )


def test_a_phone_that_does_not_trust_this_machine(server: AdbServer):
    server.add(SERIAL, state="unauthorized")
    assert error_of(phone().fingerprint) == [
        f"device 'phone': {SERIAL} does not trust this machine",
        "accept the key on the device's screen (`adb reconnect` asks again)",
    ]


def test_a_phone_that_is_offline(server: AdbServer):
    server.add(SERIAL, state="offline")
    assert error_of(phone().fingerprint)[0] == f"device 'phone': {SERIAL} is offline"


def test_two_phones_and_none_named(server: AdbServer, monkeypatch: pytest.MonkeyPatch):
    server.add("ONE")
    server.add("TWO", **{"ro.soc.model": "SM8650"})
    assert error_of(phone().fingerprint) == [
        "device 'phone': adb lists 2 devices, and the config names none: ONE (In_One), TWO (In_One)",
        "set devices.phone.serial, or ANDROID_SERIAL",
    ]
    monkeypatch.setenv("ANDROID_SERIAL", "TWO")
    assert phone().fingerprint().soc == "QTI SM8650"
    assert phone(serial="ONE").fingerprint().soc == "QTI SM8550"


def test_adb_is_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(free_port()))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert error_of(phone().fingerprint) == [
        "device 'phone': adb is not installed here",
        "apt-get install adb, or Android's platform tools",
    ]


def test_a_port_of_adbs_server_that_is_not_a_number(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", "x")
    assert error_of(phone().fingerprint) == [
        "ANDROID_ADB_SERVER_PORT: expected a port (got 'x')",
        "adb's own is 5037",
    ]


def test_an_adb_that_starts_no_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "adb").write_text("#!/bin/sh\necho 'cannot bind' >&2\nexit 1\n")
    (tmp_path / "adb").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(free_port()))
    assert error_of(phone().fingerprint) == [
        "device 'phone': adb's server does not start (cannot bind)",
        "see whether `adb start-server` works",
    ]


def test_a_full_phone(plugged: Phone, package: Path):  # noqa: F811
    plugged.full_after = 1000
    problem, remedy = error_of(phone().push, package)
    assert problem.startswith("device 'phone': no space left on the device (writing /data/local/tmp/tvmake/packages/")
    assert remedy == "free some there, or set another directory"
    assert list(plugged.path("/data/local/tmp/tvmake/packages").iterdir()) == []


def test_a_package_for_another_processor_is_not_sent(plugged: Phone, package: Path):  # noqa: F811
    plugged.says("uname", 'test "$1" = -m && echo aarch64 || exec /bin/uname "$@"')
    assert error_of(phone().push, package)[0] == (
        "device 'phone': mod.so is code for x86-64, and the device is aarch64 (uname -m: aarch64)"
    )
    assert plugged.received == []


def test_a_listing_is_read_as_adb_writes_it():
    text = (
        "R58M123                device usb:1-1 product:x model:SM_S911B device:dm1q transport_id:2\n"
        "0123456789ABCDEF       no permissions (missing udev rules? user is in the plugdev group); see [http://d] usb:1-2\n"
        "192.168.1.5:5555       offline transport_id:3\n"
    )
    first, second, third = read_listing(text)
    assert (first.serial, first.state, first.facts["model"]) == ("R58M123", "device", "SM_S911B")
    assert (second.state, third.serial, third.state) == ("no permissions", "192.168.1.5:5555", "offline")


# --- several, and tuning -------------------------------------------------------------------------------------------


def test_of_two_equal_phones_the_one_that_is_there_serves(
    server: AdbServer,
    programs: Path,
    package: Path,  # noqa: F811
    tmp_path: Path,
):
    server.add("ONE", state="offline")
    server.add("TWO")
    device = phone(serial=["ONE", "TWO"], programs=str(programs))
    inputs = inputs_file(tmp_path / "in.npz", image())
    request = RunRequest(samples=1, measurement=Measurement(repeat=1, warmup=0))
    with device.exclusive():
        result = device.execute(device.push(package), request, inputs, None)
    assert result.timing.conditions["device"] == "TWO"


def test_a_phone_whose_server_keeps_ending_is_set_aside_and_the_other_times_everything(
    server: AdbServer, programs: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("tvmake.device.supervisor.PAUSE_S", 0.01)
    server.add("ONE").says("env", "echo broken >&2; exit 3")
    server.add("TWO")
    config = device_config(via="adb", serial=["ONE", "TWO"], programs=str(programs), threads=1, wait_s=HANG_S)
    request = TuneRequest(
        target_name="phone", target=TargetConfig(kind="llvm"), device_name="phone", device=config, measure=QUICK
    )
    warnings: list[str] = []
    with measurer(request, kernels.target(), warnings.append) as measuring:
        eventually(lambda: health("adb-ONE").is_set_aside)
        results = list(measuring.measure([kernels.add(number) for number in range(3)]))
    assert [result.status for result in results] == ["ok"] * 3
    assert "device 'phone' (ONE): set aside after 3 failures" in capfd.readouterr().err
    assert warnings and all("device 'phone' (ONE): set aside" in line for line in warnings)


def test_two_names_of_one_phone_share_its_lease(plugged: Phone):
    unnamed, named = phone().members + phone(serial=SERIAL).members
    assert device_id(unnamed) == device_id(named) == f"adb-{SERIAL}"


def test_candidates_are_timed_on_the_phone_and_its_ports_are_given_back(
    server: AdbServer, plugged: Phone, programs: Path
):
    shutil.rmtree(plugged.path("/data/local/tmp"))
    config = device_config(via="adb", programs=str(programs), threads=1, wait_s=HANG_S)
    request = TuneRequest(
        target_name="phone", target=TargetConfig(kind="llvm"), device_name="phone", device=config, measure=QUICK
    )
    with measurer(request, kernels.target()) as measuring:
        results = list(measuring.measure([kernels.add(number) for number in range(3)]))
        assert [result.status for result in results] == ["ok"] * 3
        assert len(server.forwards) == len(server.reverses) == 1
    assert server.forwards == {} and server.reverses == {}
    eventually(lambda: not running(plugged.loopback))


def test_a_tunnel_left_by_a_killed_process_is_taken_over(server: AdbServer, plugged: Phone, programs: Path):
    config = device_config(via="adb", programs=str(programs), wait_s=HANG_S)
    with closing(Serving("phone", config)):
        (tunnel,) = server.forwards
    from adbutils import AdbClient

    AdbClient(port=server.port).device(SERIAL).forward(tunnel[1], tunnel[1])
    with closing(Serving("phone", config)):
        assert [*server.forwards] == [tunnel]
