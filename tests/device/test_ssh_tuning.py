"""Tuning over ssh: servers there, a tracker here, tunnels between them; all of it ends with what asked for it."""

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tests.device.ssh_server import Sshd
from tests.native import devices as native
from tests.tune.measuring import kernels
from tests.tune.measuring.conftest import QUICK
from tests.tune.measuring.processes import command, eventually
from tvmake.config.device import DeviceConfig
from tvmake.config.requests.tuning import TuneRequest
from tvmake.config.target import TargetConfig
from tvmake.device import serving, ssh_connection
from tvmake.device.serving import Serving
from tvmake.errors import DeviceError, InputError
from tvmake.tune.kernel_runner import kernel_runner
from tvmake.tune.measuring.connect import measurer
from tvmake.tune.run_kernel import Tensor

ELSEWHERE = "127.0.0.3"
"""The device's loopback address: on one machine, both ends of a tunnel cannot have the same port of the same address."""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_connection, "THERE", ELSEWHERE)
    monkeypatch.setenv("TVMAKE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    made = Sshd(tmp_path_factory.mktemp("sshd"), options="GatewayPorts clientspecified")
    yield made
    made.stop()


@pytest.fixture(scope="module")
def programs() -> Path:
    return native.programs()


def config(sshd: Sshd, programs: Path, **more: object) -> DeviceConfig:
    return DeviceConfig(**sshd.config(programs=str(programs), threads=1, wait_s=20, **more))


def servers() -> list[int]:
    listed = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [
        one for one in listed if command(one).partition(" ")[0].endswith("/tvmake-serve") and ELSEWHERE in command(one)
    ]


def test_candidates_are_timed_there_and_nothing_is_left_running(sshd: Sshd, programs: Path):
    request = TuneRequest(
        target_name="board",
        target=TargetConfig(kind="llvm"),
        device_name="board",
        device=config(sshd, programs),
        measure=QUICK,
    )
    with measurer(request, kernels.target()) as measuring:
        results = list(measuring.measure([kernels.add(number) for number in range(3)]))
        assert [result.status for result in results] == ["ok"] * 3
        assert servers()
    eventually(lambda: not servers())


def test_a_winner_is_checked_there(sshd: Sshd, programs: Path, tmp_path: Path):
    runner = kernel_runner("board", config(sshd, programs), kernels.target(), "g++")
    library = doubling(tmp_path)
    given = np.arange(64, dtype="float32")
    try:
        (doubled,) = runner.run(library, [given], [Tensor(dtype="float32", shape=(64,))], 0)
    finally:
        serving.close_all()
    assert np.array_equal(doubled, 2 * given)
    eventually(lambda: not servers())


def doubling(place: Path) -> Path:
    from tvmake.quick_tvm import tvm

    library = place / "double.so"
    tvm.compile(kernels.add(0).module, target=kernels.target()).export_library(str(library))
    return library


def test_a_server_that_ends_is_started_again(sshd: Sshd, programs: Path):
    with closing(Serving("board", config(sshd, programs))) as running:
        first = set(eventually(servers))
        for server in first:
            os.kill(server, signal.SIGKILL)
        eventually(lambda: set(servers()) - first)
        assert running.is_serving()


def test_a_device_that_does_not_serve_is_one_clear_error(sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(serving, "PAUSE_S", 0.05)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "tvmake-run").write_text("#!/bin/sh\n")
    (broken / "tvmake-serve").write_text("#!/bin/sh\necho 'no runtime' >&2\nexit 3\n")
    with pytest.raises(DeviceError, match=r"its server ended with code 3 \(no runtime\)"):
        Serving("board", config(sshd, broken))
    with pytest.raises(InputError, match="has no tvmake-run"):
        Serving("board", config(sshd, tmp_path / "nowhere"))
