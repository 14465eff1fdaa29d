"""Tuning over ssh: servers there, a tracker here, tunnels between them; all of it ends with the process that started it."""

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tests.children import WITHOUT_TORCH
from tests.device.configs import device_config
from tests.device.transport.ssh_server import Sshd
from tests.native import devices as native
from tests.patience import HANG_S
from tests.process.fixtures import shared_servers  # noqa: F401  # a fixture
from tests.tune.measure import kernels
from tests.tune.measure.conftest import QUICK
from tests.tune.measure.processes import command, eventually
from tvmake.codegen.run_kernel import Tensor
from tvmake.config.device import DeviceConfig
from tvmake.config.requests.tuning import TuneRequest
from tvmake.config.target import TargetConfig
from tvmake.device import supervisor
from tvmake.device.rpc import serving
from tvmake.device.rpc.serving import Serving
from tvmake.device.sharing.group import first_free
from tvmake.device.transport import ssh_connection
from tvmake.device.transport.shell_devices import shell_devices
from tvmake.errors import DeviceError, InputError
from tvmake.tune.measure.connect import measurer
from tvmake.tune.verify.kernel_runner import kernel_runner

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("shared_servers")]

ELSEWHERE = "127.0.0.3"
"""The device's loopback address: on one machine, both ends of a tunnel cannot have the same port of the same address."""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_connection, "THERE", ELSEWHERE)
    monkeypatch.setenv("TVMAKE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    server = Sshd(tmp_path_factory.mktemp("sshd"), options="GatewayPorts clientspecified")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def programs() -> Path:
    return native.programs()


def config(sshd: Sshd, programs: Path, **more: object) -> DeviceConfig:
    return device_config(**sshd.config(programs=str(programs), threads=1, wait_s=HANG_S, **more))


def servers() -> list[int]:
    listed = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [
        process
        for process in listed
        if command(process).partition(" ")[0].endswith("/tvmake-serve") and ELSEWHERE in command(process)
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
    values = np.arange(64, dtype="float32")
    try:
        (doubled,) = runner.run(library, [values], [Tensor(dtype="float32", shape=(64,))], 0)
    finally:
        serving.close_all()
    assert np.array_equal(doubled, 2 * values)
    eventually(lambda: not servers())


def doubling(directory: Path) -> Path:
    import tvm

    library = directory / "double.so"
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
    monkeypatch.setattr(supervisor, "PAUSE_S", 0.05)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "tvmake-run").write_text("#!/bin/sh\n")
    (broken / "tvmake-serve").write_text("#!/bin/sh\necho 'no runtime' >&2\nexit 3\n")
    with pytest.raises(DeviceError, match=r"its server ended with code 3 \(no runtime\)"):
        Serving("board", config(sshd, broken))
    with pytest.raises(InputError, match="has no tvmake-run"):
        Serving("board", config(sshd, tmp_path / "nowhere"))


# --- several jobs of one device ------------------------------------------------------------------------------------

JOB = """
import sys
import time
from pathlib import Path
from tests.tune.measure import kernels
from tvmake.config.requests.tuning import TuneRequest
from tvmake.device.transport import ssh_connection
from tvmake.tune.measure.connect import measurer

ssh_connection.THERE, mark, batches = sys.argv[2], sys.argv[3], int(sys.argv[4])
request = TuneRequest.model_validate_json(Path(sys.argv[1]).read_bytes())
# Aborts when somebody else is in.
work = [kernels.unless_zero(n, ("mkdir", mark, 511), ("usleep", 60000), ("rmdir", mark)) for n in range(4)]
with measurer(request, kernels.target()) as measuring:
    for _ in range(batches):
        for result in measuring.measure(work):
            print(time.monotonic(), result.status, result.conditions.get("governor", "-"), result.error, flush=True)
"""


class Job:
    """A process that tunes on the board."""

    def __init__(self, sshd: Sshd, programs: Path, directory: Path, batches: int, **more: object):
        measure = QUICK.model_copy(update={"builders": 1})
        request = TuneRequest(
            target_name="board",
            target=TargetConfig(kind="llvm"),
            device_name="board",
            device=config(sshd, programs, **more),
            measure=measure,
        )
        request_file = directory / "request.json"
        request_file.write_text(request.model_dump_json())
        with (directory / "complaints").open("ab") as complaints:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    WITHOUT_TORCH + JOB,
                    str(request_file),
                    ELSEWHERE,
                    str(directory / "mark"),
                    str(batches),
                ],
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
            )

    def first(self) -> list[str]:
        assert self.process.stdout is not None
        return self.process.stdout.readline().split(maxsplit=3)

    def results(self) -> list[list[str]]:
        assert self.process.stdout is not None
        results = [line.split(maxsplit=3) for line in self.process.stdout]
        assert self.process.wait(HANG_S) == 0
        return results


def test_jobs_share_a_board_candidate_by_candidate_and_never_time_at_once(sshd: Sshd, programs: Path, tmp_path: Path):
    jobs = [Job(sshd, programs, tmp_path, batches=3) for _ in range(2)]
    results = [job.results() for job in jobs]
    assert [result for of_job in results for result in of_job if result[1] != "ok"] == []
    order = [
        number
        for _, number in sorted(
            (float(result[0]), number) for number, of_job in enumerate(results) for result in of_job
        )
    ]
    assert len(order) == 24
    # One that aborts is tried once more.
    assert "lost" not in (tmp_path / "complaints").read_text()
    # One after the other they would change once.
    assert sum(first != second for first, second in itertools.pairwise(order)) > 6, order
    eventually(lambda: not servers())


def test_a_killed_job_frees_its_board_and_a_benchmark_gets_its_turn(sshd: Sshd, programs: Path, tmp_path: Path):
    killed, other = (Job(sshd, programs, tmp_path, batches=100) for _ in range(2))
    try:
        for job in (killed, other):
            assert job.first()[1] == "ok"
        killed.process.kill()
        killed.process.wait()
        assert [other.first() for _ in range(8)][-1][1] == "ok"
        with first_free(shell_devices("board", config(sshd, programs)), "board"):
            assert not (tmp_path / "mark").exists()
            time.sleep(0.5)
            assert not (tmp_path / "mark").exists()
        assert other.first()[1] == "ok"
    finally:
        for job in (killed, other):
            job.process.kill()
            job.process.wait()
    eventually(lambda: not servers())
