"""Devices behind a real tracker: packages run there as here, every wait ends, and errors say what to do."""

import os
import shutil
import signal
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.codegen.conftest import Transformed, dynamic_net, static_net  # noqa: F401  # fixtures
from tests.device.configs import device_config
from tests.device.local.test_local import image, inputs_file, own_store, package, packed  # noqa: F401  # fixtures
from tests.device.vouched import stored, vouch
from tests.patience import HANG_S
from tests.process.fixtures import shared_servers  # noqa: F401  # a fixture
from tests.tune.measure.farm import HOST, Farm, free_port
from tests.tune.measure.processes import children, command, eventually
from tvmake.artifact.package import LIBRARY, MANIFEST, WEIGHTS
from tvmake.artifact.tensor_file import member, read_array
from tvmake.config.benchmark import Measurement
from tvmake.config.device import RpcDeviceConfig
from tvmake.device.connect import connect
from tvmake.device.interface import Deployment, RunRequest
from tvmake.device.rpc import session
from tvmake.device.rpc.device import RPCDevice
from tvmake.device.rpc.tracker import Tracker
from tvmake.errors import DeviceError, InputError

pytest_plugins = "tests.tune.measure.farm_fixtures"
pytestmark = [pytest.mark.long, pytest.mark.usefixtures("patience", "shared_servers")]

SERVERS = 1


def remote(farm: Farm, **config: object) -> RPCDevice:
    device = connect("phone", device_config(**{**reaching(farm), **config}))
    assert isinstance(device, RPCDevice)
    return device


def reaching(farm: Farm) -> dict[str, object]:
    return {"via": "rpc", "tracker": f"{HOST}:{farm.port}", "key": farm.key, "wait_s": 0.5}


def outputs_of(path: Path, count: int) -> list[np.ndarray]:
    with zipfile.ZipFile(path) as archive:
        return [read_array(archive, member("output", "y", number)) for number in range(count)]


def altered(deployment: Deployment, directory: Path, change) -> Deployment:
    """A copy of a deployed package with another library, and a manifest that vouches for it."""
    shutil.copytree(deployment.location, directory)
    library = directory / LIBRARY
    library.write_bytes(change(library.read_bytes()))
    vouch(directory)
    return deployment.model_copy(update={"location": str(stored(directory))})


def test_a_package_gives_the_same_outputs_there_as_here(farm: Farm, package: Path, tmp_path: Path):  # noqa: F811
    request = RunRequest(samples=2, repeat_first=True)
    inputs = inputs_file(tmp_path / "in.npz", image(0), image(1))
    results = {}
    for device in (remote(farm), connect("local", device_config(threads=1))):
        device.execute(device.push(package), request, inputs, tmp_path / f"{device.name}.npz")
        results[device.name] = outputs_of(tmp_path / f"{device.name}.npz", 3)
    for there, here in zip(results["phone"], results["local"], strict=True):
        assert np.array_equal(there, here)
    assert not np.allclose(results["phone"][0], results["phone"][1])


def test_a_package_is_timed_on_the_device_itself(farm: Farm, package: Path, tmp_path: Path):  # noqa: F811
    how = Measurement(warmup=2, repeat=4, number=3, profile_ops=True)
    device = remote(farm)
    inputs = inputs_file(tmp_path / "in.npz", image())
    timing = device.execute(device.push(package), RunRequest(samples=1, measurement=how), inputs, None).timing
    assert len(timing.samples_ms) == 4 and len(timing.warmup_ms) == 2 and timing.number == 3
    assert all(value > 0 for value in [*timing.samples_ms, timing.load_ms, timing.first_run_ms])
    assert timing.op_runs == [] and "not available over RPC" in timing.conditions["operator_times"]
    assert timing.peak_memory_bytes == 0


def test_samples_continue_until_they_last_long_enough(farm: Farm, package: Path, tmp_path: Path):  # noqa: F811
    how = Measurement(warmup=0, repeat=2, min_repeat_ms=5, min_duration_s=0.1)
    device = remote(farm)
    inputs = inputs_file(tmp_path / "in.npz", image())
    timing = device.execute(device.push(package), RunRequest(samples=1, measurement=how), inputs, None).timing
    assert timing.number > 1 and timing.warmup_ms == []
    assert sum(timing.samples_ms) * timing.number >= 100


def test_a_dynamic_package_runs_on_any_extent(farm: Farm, dynamic_net: Transformed, tmp_path: Path):  # noqa: F811
    device = remote(farm)
    inputs = inputs_file(tmp_path / "in.npz", np.ones((2, 3, 4), "float32"), np.ones((1, 5, 4), "float32"))
    device.execute(device.push(packed(dynamic_net, tmp_path)), RunRequest(samples=2), inputs, tmp_path / "out.npz")
    assert [output.shape for output in outputs_of(tmp_path / "out.npz", 2)] == [(36, 5), (30, 5)]


def test_the_device_says_who_it_is_and_the_config_what_it_is(farm: Farm):
    fingerprints = remote(farm).fingerprint()
    assert (fingerprints.kind, fingerprints.soc, fingerprints.cores, fingerprints.details["threads"]) == (
        "cpu",
        "phone",
        1,
        "1",
    )
    assert fingerprints.details["key"] == "phone" and fingerprints.memory_bytes > 0
    assert remote(farm, soc="Snapdragon 8 Gen 2", threads=1).fingerprint().soc == "Snapdragon 8 Gen 2"


def test_more_threads_than_the_server_has_is_one_clear_error(farm: Farm):
    assert error_of(remote(farm, threads=3).fingerprint) == [
        "device 'phone': its server runs kernels on 1 threads at most, not on 3",
        "start the server with TVM_NUM_THREADS set to the number, or ask for fewer threads in the config",
    ]


def test_the_tracker_may_come_from_the_environment(farm: Farm, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TVM_TRACKER_HOST", HOST)
    monkeypatch.setenv("TVM_TRACKER_PORT", str(farm.port))
    assert remote(farm, tracker=None).fingerprint().soc == "phone"


@pytest.mark.parametrize("name", [LIBRARY, WEIGHTS, MANIFEST])
def test_a_deployed_file_that_changed_is_not_sent(farm: Farm, package: Path, tmp_path: Path, name: str):  # noqa: F811
    device = remote(farm)
    deployment = device.push(package)
    file = Path(deployment.location) / name
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(InputError, match=r"truncated|altered|damaged"):
        device.execute(deployment, RunRequest(samples=1), inputs_file(tmp_path / "in.npz", image()), None)


def test_inputs_that_do_not_fit_are_named(farm: Farm, package: Path, tmp_path: Path):  # noqa: F811
    device = remote(farm)
    inputs = inputs_file(tmp_path / "in.npz", np.zeros((1, 3, 8), "float32"))
    with pytest.raises(InputError, match=r"input 'x' is .* the package takes float32\[1, 3, 8, 8\]"):
        device.execute(device.push(package), RunRequest(samples=1), inputs, None)


# --- what can go wrong, line by line -------------------------------------------------------------------------------


def error_of(work, *arguments: object) -> list[str]:
    with pytest.raises(DeviceError) as caught:
        work(*arguments)
    return [line.strip() for line in str(caught.value).splitlines()]


def test_no_tracker_is_known(farm: Farm, monkeypatch: pytest.MonkeyPatch):
    remedy = "set devices.phone.tracker (host:port), or set TVM_TRACKER_HOST and TVM_TRACKER_PORT"
    monkeypatch.delenv("TVM_TRACKER_HOST", raising=False)
    monkeypatch.delenv("TVM_TRACKER_PORT", raising=False)
    device = remote(farm, tracker=None)
    assert error_of(device.fingerprint) == ["device 'phone': no tracker is known", remedy]
    monkeypatch.setenv("TVM_TRACKER_HOST", HOST)
    monkeypatch.setenv("TVM_TRACKER_PORT", "many")
    assert error_of(device.fingerprint) == [
        "device 'phone': TVM_TRACKER_HOST and TVM_TRACKER_PORT do not name a tracker: expected host:port, such as "
        "127.0.0.1:9190 (got '127.0.0.1:many')",
        remedy,
    ]


def test_an_address_without_a_tracker_is_reported_how_one_is_written(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("TVM_TRACKER_HOST", raising=False)
    monkeypatch.delenv("TVM_TRACKER_PORT", raising=False)
    refused = error_of(lambda: Tracker.of("rpc:x", RpcDeviceConfig(via="rpc", key="x")))
    assert refused[1].startswith("write it as rpc:TRACKER:PORT/KEY, or set TVM_TRACKER_HOST")


def test_the_tracker_is_down(farm: Farm):
    port = free_port()
    assert error_of(remote(farm, tracker=f"{HOST}:{port}").fingerprint) == [
        f"device 'phone': no tracker at {HOST}:{port} (connection refused)",
        f"start it: `tvmake device tracker --port {port}`, or correct its address",
    ]


def test_no_server_has_the_key(farm: Farm):
    assert error_of(remote(farm, key="fone").fingerprint) == [
        f"device 'phone': no server with key 'fone' at tracker {HOST}:{farm.port} (waited 0.5 s)",
        f"start one on the device: `tvmake device serve --tracker {HOST}:{farm.port} --key fone`, or TVM's own"
        " (docs/guides/devices-rpc.md)",
    ]


def test_every_server_stays_busy(farm: Farm, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(session, "LISTED_S", 0.2)
    monkeypatch.setattr(session.take, "__defaults__", (1.0,))
    with holding(farm):
        assert error_of(remote(farm).fingerprint) == [
            f"device 'phone': no server with key 'phone' at tracker {HOST}:{farm.port} came free in 1 s",
            "find who uses it (`tvmake device list`), restart a server that hangs, or add one",
        ]
    assert capsys.readouterr().err.count("every server with key 'phone' is busy; waiting") == 1


class holding:  # reads as a statement
    """Somebody else's session, for the length of a block."""

    def __init__(self, farm: Farm):
        self.farm = farm

    def __enter__(self) -> None:
        from tvm import rpc

        offer = self.farm.tracker.request(HANG_S)
        assert offer is not None
        self.session = rpc.connect(offer.address.host, offer.address.port, offer.match_key, 2 * HANG_S)

    def __exit__(self, *_: object) -> None:
        del self.session


def test_a_device_that_is_busy_is_waited_for(farm: Farm):
    device = remote(farm)
    with holding(farm):
        asking = threading.Thread(target=lambda: fingerprints.append(device.fingerprint()))
        fingerprints: list[object] = []
        asking.start()
        asking.join(3)
        assert fingerprints == []
    asking.join(HANG_S)
    assert len(fingerprints) == 1


def test_a_server_that_hangs_does_not_hang_the_run(farm: Farm, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tvmake.device.rpc.device.CONNECT_S", 1.0)
    monkeypatch.setattr("tvmake.device.rpc.device.REFUSALS", 1)
    (address,) = farm.servers
    farm.freeze(address)
    try:
        assert error_of(remote(farm).fingerprint) == [
            f"device 'phone': its server {address} does not open a session (no answer in 1 s)",
            "restart the server; it must run the same version of TVM as this machine",
        ]
        assert workers() == []
    finally:
        farm.lose(address)


def workers() -> list[int]:
    return [process for process in children(os.getpid()) if "tvmake.device.rpc.worker" in command(process)]


def test_a_run_that_takes_too_long_is_ended_and_frees_the_server(farm: Farm, package: Path, tmp_path: Path):  # noqa: F811
    device = remote(farm, timeout_s=2)
    inputs = inputs_file(tmp_path / "in.npz", image())
    request = RunRequest(samples=1, measurement=Measurement(repeat=10**6, number=10))
    deployment = device.push(package)
    assert error_of(device.execute, deployment, request, inputs, None) == [
        "device 'phone': the run did not end within 2 s",
        "raise devices.phone.timeout_s, or lower benchmark.repeat, benchmark.min_duration_s, or the dataset's limit",
    ]
    assert workers() == []
    remote(farm, timeout_s=HANG_S).execute(deployment, RunRequest(samples=1), inputs, None)


def test_a_server_lost_in_the_middle_is_named(farm: Farm, package: Path, tmp_path: Path):  # noqa: F811
    (address,) = farm.servers
    device = remote(farm)
    deployment = device.push(package)
    request = RunRequest(samples=1, measurement=Measurement(repeat=10**6, number=10))
    inputs = inputs_file(tmp_path / "in.npz", image())

    def lose() -> None:
        eventually(lambda: "load_module" in "".join(log.read_text() for log in farm.directory.glob("rpc_server*.log")))
        farm.lose(address)

    for log in farm.directory.glob("rpc_server*.log"):
        os.truncate(log, 0)
    loser = threading.Thread(target=lose)
    loser.start()
    assert error_of(device.execute, deployment, request, inputs, None) == [
        f"device 'phone': its server {address} was lost while running the package (it closed the connection)",
        "see the server's output; restart it if it ended, and run the same command again",
    ]
    loser.join()


def test_code_for_another_processor_is_named(farm: Farm, package: Path, tmp_path: Path):  # noqa: F811
    device = remote(farm)
    for_arm = altered(device.push(package), tmp_path / "arm", lambda data: data[:18] + b"\xb7\x00" + data[20:])
    inputs = inputs_file(tmp_path / "in.npz", image())
    problem, remedy = error_of(device.execute, for_arm, RunRequest(samples=1), inputs, None)
    assert problem.startswith("device 'phone': it cannot load mod.so, which is code for aarch64 (")
    assert remedy == (
        "compile for this device: the target's mtriple and mcpu, and cc that links for it (docs/guides/devices-rpc.md)"
    )


def test_a_process_killed_here_is_one_clear_line_and_frees_the_server(farm: Farm, package: Path, tmp_path: Path):  # noqa: F811
    device = remote(farm)
    inputs = inputs_file(tmp_path / "in.npz", image())
    request = RunRequest(samples=1, measurement=Measurement(repeat=10**5))

    def kill() -> None:
        (worker,) = eventually(workers)
        eventually(lambda: "load_module" in "".join(log.read_text() for log in farm.directory.glob("rpc_server*.log")))
        os.kill(worker, signal.SIGKILL)

    for log in farm.directory.glob("rpc_server*.log"):
        os.truncate(log, 0)
    killer = threading.Thread(target=kill)
    killer.start()
    from tvmake.errors import MachineError

    with pytest.raises(MachineError, match="the process that used it ended with SIGKILL"):
        device.execute(device.push(package), request, inputs, None)
    killer.join()
    assert device.fingerprint().soc == "phone"
